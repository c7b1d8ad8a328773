"""Data and settings of batches that are refused, and files whose mistakes the error places."""

import pytest

from keras_headattn import data
from tests.data.test_parallel import write
from tests.refusals import refusals, refused


def labelled(labels, **options):
    return lambda: data.LabelledBatches({"text": [[5], [6, 7, 8]]}, labels, **({"batch_size": 8} | options))


test_token_batches = refusals(
    (lambda: data.TokenBatches({"source": [[3]], "target": []}), "columns", "source with 1, target with 0"),
    (lambda: data.TokenBatches({"source": []}), "columns", "source with 0"),
    (lambda: data.TokenBatches({}), "columns", "no columns"),
    (lambda: data.TokenBatches({"source": [[3], []], "target": [[3], [3]]}), "columns", "source[1]=[]"),
    (lambda: data.TokenBatches({"source": [[3]], "target": [[4, 0, 3]]}), "columns", "target[0]=[4, 0, 3]"),
    (lambda: data.TokenBatches({"source": [[3]]}, bucket_lengths=(8, 4)), "bucket_lengths", "bucket_lengths=(8, 4)"),
    (lambda: data.TokenBatches({"source": [[3]]}, bucket_lengths=()), "bucket_lengths", "bucket_lengths=()"),
    (lambda: data.TokenBatches({"source": [[3]]}, 31, num_replicas=2), "tokens_per_batch", "0 x 16"),
)

test_labelled_batches = refusals(
    (labelled([0, 1], bucket_lengths=(2,)), "bucket_lengths", "bucket_lengths=(2,)"),
    (labelled([0, 1], num_replicas=3), "batch_size", "batch_size=8"),
    (labelled([0]), "labels", "labels of shape (1,)"),
    (labelled([0, -1]), "labels", "labels[1]=-1"),
    (labelled([float("nan"), 0.5]), "labels", "labels[0]=nan"),
    (labelled([[0, 1], [1, float("inf")]]), "labels", "labels[1]=[ 1. inf]"),
    (labelled([0.5, 1.5], class_weights=[1, 2]), "class_weights", "labels of shape (2,) and type float32"),
    (labelled([[0, 1], [1, 1]], class_weights=[1, 2]), "class_weights", "labels of shape (2, 2)"),
)

test_others = refusals(
    (lambda: data.Records("nothing"), "corpus.json", "nothing", FileNotFoundError),
    (lambda: data.choose_buckets([], 3), "lengths", "0 distinct lengths, max_buckets=3"),
    (lambda: data.choose_buckets([4], 0), "max_buckets", "max_buckets=0"),
    (lambda: data.source_batches([[4] * 9], (4, 8)), "bucket_lengths", "bucket_lengths=(4, 8)"),
    (lambda: data.pack_ids([[1], [1] * 5], 4), "ids", "5 ids for length=4"),
    (lambda: data.pack_ids([], 0), "length", "length=0"),
    (lambda: data.ParallelCorpus(["a", "b"], ["c"], "demo"), "target", "2 source and 1 target lines in demo"),
    (lambda: data.LabelledText(["a", "a"], ["c", "d"], "demo").split([0.1]), "examples", "1 different texts for"),
    (lambda: data.LabelledText(["a"] * 9, ["c"] * 9, "demo").split([0.8, 0.1, 0.1]), "shares", "[0.8, 0.1, 0.1]"),
)


@pytest.mark.parametrize("name, text, place, received", [
    ("a.csv", "text,label\nx,a\ny\n", "a.csv, line 3", "1"),
    ("a.csv", "text,label\nx,\n", "a.csv, line 2", "label=''"),
    ("a.csv", "text,class\nx,a\n", "{} must name the column 'label'. Give --label-column", "text, class"),
    ("a.csv", "review;class\nx;a\n", "{} must name the column 'text'. Give --text-column", "review, class"),
    ("a.csv", "text,text\n", "a.csv", "text, text"),
    ("a.tsv", "text\tlabel\nx\ta\tb\n", "a.tsv, line 2", "3"),
    ("a.jsonl", "[1]\n", "a.jsonl, line 1", "[1]"),
    ("a.jsonl", '{"text": "x", "label": null}\n', "a.jsonl, line 1 has the columns text.", "no 'label'"),
    ("a.jsonl", '{"text": ["x"], "label": 1}\n', "a.jsonl, line 1 has the columns label.", "no 'text'"),
    ("a.tsv", "text\tlabel\n", "no examples", "a.tsv"),
    ("a.txt", "", "format", "a.txt, 'txt'"),
])  # fmt: skip
def test_labelled_text(tmp_path, name, text, place, received):
    path = write(tmp_path / name, text)
    with refused(place.format(path), received):
        data.read_labelled([path], "text", "label")
