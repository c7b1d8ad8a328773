"""The questions that the settings name."""

from recipes.answer.demo import number_questions
from recipes.answer.squad import Question, Questions, read_squad
from recipes.engine.data import Corpora, load_tfds, named_files
from recipes.engine.settings import VALIDATION_SHARE


def read_corpora(config):
    """Reads the questions that `config` names as `Corpora`. Without a test set, validation is scored."""
    if config.data == "built_in":
        made = number_questions(seed=config.split_seed)
        corpora = Corpora(made["train"], made["validation"], {"test": made["test"]})
    elif config.data == "tfds":
        train, validation = (_read_tfds(config.tfds, config.splits[part]) for part in ("train", "validation"))
        corpora = Corpora(train, validation, read_tests(config))
    else:
        train = _joined(config.train)
        if config.validation_files:
            validation = _joined(config.validation_files)
        else:
            train, validation = train.split([config.validation_share or VALIDATION_SHARE], config.split_seed)
        corpora = Corpora(train, validation, read_tests(config) or {"dev": validation})

    def chosen(questions):
        return questions.sample(config.max_examples, config.split_seed)

    tests = {name: chosen(test) for name, test in corpora.tests.items()}
    return Corpora(chosen(corpora.train), chosen(corpora.validation), tests)


def read_tests(config, files=None):
    """Reads the test sets of files, or for `None` those that the settings name: dictionary by name."""
    if files is None and config.data == "tfds":
        return {split: _read_tfds(config.tfds, split) for split in config.test_splits}
    return {name: _joined(part) for name, part in named_files(files or config.test, "[.]json").items()}


def _joined(files):
    parts, known = [read_squad(file) for file in files], {}
    for file, part in zip(files, parts, strict=True):
        for row in part.rows:
            if row.id in known:
                raise ValueError(
                    "The questions of all files of a set need ids of their own. "
                    f"Received: {row.id!r} in {known[row.id]} and in {file}"
                )
            known[row.id] = file
    return Questions([row for part in parts for row in part.rows], parts[0].name)


def _read_tfds(name, split):
    """Reads a split of `squad` of TensorFlow Datasets, which downloads it on first use."""
    with load_tfds(name) as tfds:
        rows = tfds.as_numpy(tfds.load(name, split=split))
    questions = []
    for row in rows:
        answers = zip(row["answers"]["text"], row["answers"]["answer_start"].tolist(), strict=True)
        answers = () if row.get("is_impossible") else tuple((text.decode(), start) for text, start in answers)
        questions.append(Question(*(row[key].decode() for key in ("id", "question", "context")), answers))
    return Questions(questions, f"{name}, {split}")
