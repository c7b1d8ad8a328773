"""Reading and writing checkpoints of other libraries."""

from keras_headattn.interop._attentions import copy_attention, of_addons
from keras_headattn.interop._collaborative import to_collaborative
from keras_headattn.interop._configs import read_config
from keras_headattn.interop._containers import read_tensors
from keras_headattn.interop._copying import Names, Report, copy_weights, weights_by_name
from keras_headattn.interop._ctranslate2 import to_ctranslate2
from keras_headattn.interop._electra import from_electra, to_electra
from keras_headattn.interop._export import to_hugging_face
from keras_headattn.interop._generation import generation_settings
from keras_headattn.interop._keras_hub import from_keras_hub, to_keras_hub
from keras_headattn.interop._lsdefine import from_lsdefine
from keras_headattn.interop._opennmt import from_opennmt
from keras_headattn.interop._pretrained import from_pretrained, tokenizer_of
from keras_headattn.interop._shortlists import read_shortlist
from keras_headattn.interop._tensorflow_resnet import from_tensorflow_resnet
from keras_headattn.interop._tokenizers import marian_vocabularies, read_vocabularies

__all__ = [
    "Names",
    "Report",
    "copy_attention",
    "copy_weights",
    "from_electra",
    "from_keras_hub",
    "from_lsdefine",
    "from_opennmt",
    "from_pretrained",
    "from_tensorflow_resnet",
    "generation_settings",
    "marian_vocabularies",
    "of_addons",
    "read_config",
    "read_shortlist",
    "read_tensors",
    "read_vocabularies",
    "to_collaborative",
    "to_ctranslate2",
    "to_electra",
    "to_hugging_face",
    "to_keras_hub",
    "tokenizer_of",
    "weights_by_name",
]
