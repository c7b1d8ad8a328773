"""Data in an order that training can be resumed in: batches in length buckets, records, texts and images."""

from keras_headattn._lazy import attach

__getattr__, __dir__, __all__ = attach(
    __name__,
    {
        "_batches": ["TokenBatches", "teacher_forcing"],
        "_buckets": ["choose_buckets", "example_lengths", "pad_ids", "source_batches", "source_lengths"],
        "_cleaning": ["CleaningReport", "clean", "clean_pairs", "empty_pairs"],
        "_documents": ["Documents"],
        "_eraser": [
            "Annotation",
            "EraserCorpus",
            "Evidence",
            "read_eraser",
            "read_rationales",
            "write_eraser",
            "write_rationales",
        ],
        "_image_folders": ["ImageFiles", "MemoryImages", "read_digits", "read_folder", "read_labelled_folder"],
        "_image_ops": ["central_crop", "inception_crop", "pad_and_crop"],
        "_image_records": ["ImageRecords", "read_records", "read_tfds_images"],
        "_images": ["ImageBatches", "ImageSource", "Subset"],
        "_labelled_batches": ["LabelledBatches", "balanced_class_weights"],
        "_labelled_text": ["LabelledText", "read_labelled", "read_tfds_labelled"],
        "_packing": ["pack_lines"],
        "_parallel": [
            "ParallelCorpus",
            "Sentences",
            "iwslt_files",
            "read_iwslt",
            "read_pairs",
            "read_text",
            "read_tfds",
        ],
        "_record_batches": ["RecordBatches"],
        "_records": ["Records", "claim", "write_records"],
        "_sequence_batches": ["SequenceBatches", "read_held_out"],
        "_sequence_records": ["adopt_sequences", "write_sequences"],
    },
)
