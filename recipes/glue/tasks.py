"""The task that a model is fine-tuned as."""

from recipes.glue.modelling import is_t5
from recipes.glue.task import Glue
from recipes.glue.text_to_text import TextToText


def make_task(config, run):
    """Makes the task of this kind of model: T5 writes its labels, others have a head."""
    return (TextToText if is_t5(config.checkpoint, run.folder) else Glue)(config, run)
