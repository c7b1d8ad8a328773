"""Records, token files, texts and length-bucketed batches in an order from which training can resume."""

from keras_headattn import _tensorflow  # noqa: F401
from keras_headattn.data._batches import MemoryBatches, TokenBatches, dataset_of, teacher_forcing
from keras_headattn.data._buckets import choose_buckets, example_lengths, pad_ids, source_batches, source_lengths
from keras_headattn.data._central_crop import central_crop
from keras_headattn.data._labelled_batches import LabelledBatches
from keras_headattn.data._labelled_text import LabelledText, read_labelled
from keras_headattn.data._packing import pack_ids
from keras_headattn.data._parallel import ParallelCorpus, Sentences, read_pairs, read_text
from keras_headattn.data._record_batches import RecordBatches
from keras_headattn.data._records import Records, begin_records, finish_records, write_records
from keras_headattn.data._row_batches import RowBatches
from keras_headattn.data._shards import describe_shard, write_shard
from keras_headattn.data._token_files import TokenFile, write_tokens

__all__ = [
    "LabelledBatches",
    "LabelledText",
    "MemoryBatches",
    "ParallelCorpus",
    "RecordBatches",
    "Records",
    "RowBatches",
    "Sentences",
    "TokenBatches",
    "TokenFile",
    "begin_records",
    "central_crop",
    "choose_buckets",
    "dataset_of",
    "describe_shard",
    "example_lengths",
    "finish_records",
    "pack_ids",
    "pad_ids",
    "read_labelled",
    "read_pairs",
    "read_text",
    "source_batches",
    "source_lengths",
    "teacher_forcing",
    "write_records",
    "write_shard",
    "write_tokens",
]
