"""Data in an order that training can be resumed in: batches in length buckets, records, texts and images."""

from keras_headattn._lazy import attach

__getattr__, __dir__, __all__ = attach(
    __name__,
    {
        "_batches": ["TokenBatches", "teacher_forcing"],
        "_buckets": ["choose_buckets", "example_lengths", "pad_ids", "source_batches", "source_lengths"],
        "_image_ops": ["central_crop", "inception_crop", "pad_and_crop"],
        "_images": ["ImageBatches", "ImageSource", "Subset"],
        "_labelled_batches": ["LabelledBatches", "balanced_class_weights"],
        "_labelled_text": ["LabelledText", "read_labelled"],
        "_parallel": [
            "ParallelCorpus",
            "Sentences",
            "read_pairs",
            "read_tagged",
            "read_text",
        ],
        "_record_batches": ["RecordBatches"],
        "_records": ["Records", "begin_records", "write_records"],
    },
)
