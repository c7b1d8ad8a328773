"""Checkpoints of other libraries as runs, and runs as checkpoints of other libraries."""

import json
import pathlib

from keras_headattn._files import write_atomically
from keras_headattn.interop import from_electra, from_pretrained, to_electra, to_hugging_face, tokenizer_of
from keras_headattn.models import ElectraPretraining, MaskedLMPretraining
from keras_headattn.serving import write_version
from recipes.engine.encoders import saved_tokenizer
from recipes.pretrain.modelling import attention_arguments, encoder_of, generator_attention_of
from recipes.pretrain.prepare import TOKENIZER, VOCABULARY, keep_tokenizer, read_vocabulary


def write(run, config, model, folder):
    """Writes a model of multi-head attention as Hugging Face has it and, of ELECTRA, as Google's program has it too.

    A new numbered folder, whose path is returned, has `discriminator`, `generator` and `google` of ELECTRA, else
    `masked_lm`, each with the vocabulary. A folder of another run is refused.
    """
    tokenizer = saved_tokenizer(run.folder / TOKENIZER)
    is_electra = isinstance(model, ElectraPretraining)
    names = ("discriminator", "generator") if is_electra else ("masked_lm",)

    def write_networks(path):
        path = pathlib.Path(path)
        for name in names:
            to_hugging_face(getattr(model, name), path / name, model_type="electra" if is_electra else None)
            _write_tokenizer(path / name, tokenizer)
        if is_electra:
            to_electra(model, path / "google" / "model.ckpt")
            _write_tokenizer(path / "google", tokenizer)

    return write_version(folder, write_networks, config.run)


def _write_tokenizer(folder, tokenizer):
    write_atomically(folder / "vocab.txt", "".join(f"{token}\n" for token in tokenizer.vocabulary).encode("utf-8"))
    settings = {"do_lower_case": tokenizer.lowercase, "tokenizer_class": "BertTokenizer"}
    write_atomically(folder / "tokenizer_config.json", (json.dumps(settings) + "\n").encode("utf-8"))


def read_pretrained(config, tokenizer, checkpoint, generator=None):
    """Reads the model of a checkpoint, with the attention and the masks of the settings.

    `checkpoint` is as `from_electra` takes it, or `from_pretrained` for masked tokens; `generator` is Hugging Face's
    folder of one, if `checkpoint` has not both networks.
    """
    special = dict(mask_id=tokenizer.mask_id, special_ids=(tokenizer.bos_id, tokenizer.eos_id))
    arguments = {name: config.model_argument(name) for name in ("dropout", "attention_dropout")}
    arguments |= attention_arguments(config)
    if config.objective == "masked_lm":
        head = from_pretrained(checkpoint, head="masked_lm", pooler=False, strict=False, **arguments)
        return MaskedLMPretraining(head, **special)
    of_generator = {"attention": generator_attention_of(config)}
    return from_electra(checkpoint, generator_path=generator, generator_arguments=of_generator, **special, **arguments)


def shape_of(model):
    """Returns the settings of sizes that a model answers to."""
    encoder = encoder_of(model)
    names = ("num_layers", "hidden_dim", "intermediate_dim", "embedding_dim", "max_length")
    shape = {name: getattr(encoder, name) for name in names}
    if isinstance(model, ElectraPretraining):
        shape["generator_share"] = model.generator.encoder.hidden_dim / encoder.hidden_dim
    return {"num_heads": encoder.num_heads, "model_arguments": shape}


def import_pretrained(run, config, checkpoint, generator=None):
    """Makes a finished run of a checkpoint, with its sizes and its vocabulary.

    Without `config.vocabulary` the folder of the checkpoint has a vocab.txt, and its tokenizer_config.json says if text
    is lower-cased. Other arguments are those of `read_pretrained`.
    """
    folder = pathlib.Path(checkpoint)
    folder = folder if folder.is_dir() else folder.parent
    if not config.vocabulary and all((folder / name).exists() for name in ("config.json", "tokenizer_config.json")):
        config = config.changed({"lowercase": tokenizer_of(folder).lowercase})
    tokenizer = read_vocabulary(config.vocabulary or folder / VOCABULARY, config.lowercase)
    model = read_pretrained(config, tokenizer, checkpoint, generator)
    encoder = encoder_of(model)
    if tokenizer.vocabulary_size > encoder.vocabulary_size:
        raise ValueError(
            "The vocabulary must be that of the model. "
            f"Received: {tokenizer.vocabulary_size} tokens for {encoder.vocabulary_size} in {checkpoint}"
        )
    config = config.changed(shape_of(model))
    run.check(config)
    run.start(config)
    keep_tokenizer(run, tokenizer)
    run.save_model(model, run.model)
    run.save_config(config)
