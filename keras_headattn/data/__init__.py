"""Data that can be gone through again from any step: batches in length buckets, records, texts and images."""

from keras_headattn._lazy import attach

__getattr__, __dir__, __all__ = attach(
    __name__,
    {
        "_batching": ["TokenBatches", "source_batches"],
        "_buckets": ["bucket_of", "choose_buckets", "pad_ids", "source_lengths"],
        "_cleaning": ["CleaningReport", "clean", "clean_pairs", "empty_pairs"],
        "_image_folders": ["ImageFiles", "MemoryImages", "read_digits", "read_folder", "read_labelled_folder"],
        "_image_ops": ["central_crop", "inception_crop", "pad_and_crop"],
        "_image_records": ["ImageRecords", "read_records", "read_tfds_images"],
        "_images": ["ImageBatches", "Subset"],
        "_labelled_batches": ["LabelledBatches", "TextBatches", "balanced_class_weights", "longer_side"],
        "_labelled_text": ["LabelledText", "read_labelled", "read_tfds_labelled"],
        "_parallel": ["ParallelCorpus", "Sentences", "iwslt_files", "read_iwslt", "read_text", "read_tfds"],
        "_record_batches": ["RecordBatches"],
        "_records": ["Records", "claim", "write_records"],
    },
)
