"""Search settings of config.json and generation_config.json."""

import pathlib
from collections.abc import Sequence
from typing import Any

from keras_headattn._files import Path
from keras_headattn.interop._configs import Config, read_config

UNSET = """
    assistant_early_exit begin_suppress_tokens constraints dola_layers exponential_decay_length_penalty force_words_ids
    forced_bos_token_id forced_decoder_ids forced_eos_token_id low_memory max_time min_new_tokens penalty_alpha
    prompt_lookup_num_tokens sequence_bias stop_strings watermarking_config
""".split()
# Keys that change a search, and their neutral value.
NEUTRAL = {
    **dict.fromkeys(UNSET),
    **dict.fromkeys("do_sample early_stopping token_healing".split(), False),
    **dict.fromkeys("diversity_penalty encoder_no_repeat_ngram_size".split(), 0),
    **dict.fromkeys("encoder_repetition_penalty guidance_scale length_penalty repetition_penalty".split(), 1.0),
    "num_beam_groups": 1,
}
# Keys of generation_config.json that do not matter without sampling.
HARMLESS = """
    _from_model_config assistant_confidence_threshold assistant_lookbehind bos_token_id cache_config
    cache_implementation compile_config decoder_start_token_id disable_compile epsilon_cutoff eta_cutoff is_assistant
    max_matching_ngram_size min_p num_assistant_tokens num_assistant_tokens_schedule num_return_sequences
    output_attentions output_hidden_states output_logits output_scores pad_token_id prefill_chunk_size
    remove_invalid_values renormalize_logits return_dict return_dict_in_generate return_legacy_cache
    target_lookbehind temperature top_h top_k top_p transformers_version typical_p use_cache
""".split()
HONOURED = """
    bad_words_ids eos_token_id max_length max_new_tokens min_length no_repeat_ngram_size num_beams suppress_tokens
""".split()
KINDS = ("t5", "mt5", "marian", "m2m_100", "blenderbot")


def generation_settings(path: Path, ignore: Sequence[str] = ()) -> dict[str, Any]:
    """Returns the arguments that make `Searcher` search a checkpoint as transformers' `generate` does.

    They are read from `generation_config.json` or else `config.json`, with the token ids of `from_pretrained`'s model.
    Differences from `generate`:

    - The length penalty is Wu et al.'s, so `alpha` is returned only for a `length_penalty` of 0.
    - Suppressed ids are excluded before the softmax, as with `renormalize_logits`; greedy search is the same.
    - The search stops only when no beam can improve, as with `early_stopping="never"`.

    Args:
        path: str or path of a folder with a T5, mT5, Marian or M2M100 of Hugging Face.
        ignore: list of str, unsupported keys to ignore, such as `["early_stopping"]`. Default: none.

    Returns:
        Dictionary of `beam_size`, `start_id`, `end_id`, `suppress`, `force_end`, and, if given, `alpha`, `max_length`,
        `min_length` and `no_repeat_ngram_size`.

    Raises:
        FileNotFoundError, ValueError: if a file is missing, or has settings that are not supported.

    >>> from keras_headattn.interop import to_hugging_face
    >>> from keras_headattn.models import T5
    >>> to_hugging_face(T5(50, 16, 32, num_layers=1, num_heads=2, key_dim=8), "tiny-t5")
    >>> generation_settings("tiny-t5")
    {'beam_size': 1, 'start_id': 0, 'end_id': 1, 'suppress': [], 'force_end': False}
    """
    path = pathlib.Path(path)
    config = Config(read_config(path), path / "config.json")
    if config["model_type"] not in KINDS:
        raise ValueError(
            f"Only {', '.join(KINDS)} generate. Received: model_type={config['model_type']!r} in {config.path}"
        )
    settings = _search_config(config)
    beams = settings.integer("num_beams", 1, least=1)
    ends = _ids(settings, "eos_token_id", config)
    faults = [key for key in _faults(settings, config, ends, beams) if key not in ignore]
    if faults:
        received = ", ".join(f"{key}={settings.values[key]!r}" for key in faults)
        raise ValueError(
            f"`Searcher` does not support these settings; `ignore={faults!r}` passes them over. "
            f"Received: {received} in {settings.path}"
        )
    if not ends:
        raise ValueError(f"The configuration lacks 'eos_token_id'. Received: {settings.path}")
    start = _ids(settings, "decoder_start_token_id", config) or _ids(settings, "bos_token_id", config)
    if not start:
        raise ValueError(f"The configuration lacks 'decoder_start_token_id'. Received: {settings.path}")
    places = _places(config)
    arguments = dict(beam_size=beams, start_id=places(start[0]), end_id=places(ends[0]))
    arguments |= dict(suppress=suppressed_ids(config), force_end=is_end_forced(config))
    if settings.values.get("length_penalty") == 0:
        arguments["alpha"] = 0.0
    if settings.values.get("max_new_tokens") is not None:
        arguments["max_length"] = settings.integer("max_new_tokens", least=1)
    elif settings.values.get("max_length") is not None:  # which counts the start token
        arguments["max_length"] = settings.integer("max_length", least=2) - 1
    if settings.values.get("min_length"):
        arguments["min_length"] = max(settings.integer("min_length", least=0) - 1, 0)  # which counts the start token
    if settings.values.get("no_repeat_ngram_size"):
        arguments["no_repeat_ngram_size"] = settings.integer("no_repeat_ngram_size", least=0)
    return arguments


def suppressed_ids(config):
    """Returns this library's ids that searches never produce, with padding for Marian and M2M100."""
    settings = _search_config(config)
    ends = _ids(settings, "eos_token_id", config)
    banned = _ids(settings, "suppress_tokens", config)
    banned += [word[0] for word in _bad_words(settings, config) if len(word) == 1]
    if config["model_type"] in ("marian", "m2m_100"):
        banned.append(config.integer("pad_token_id"))
    places = _places(config)
    return sorted({places(token) for token in banned if token not in ends})


def is_end_forced(config):
    """Returns True if the token at the maximum length is always the end token."""
    settings = _search_config(config)
    forced = settings.values.get("forced_eos_token_id")
    return forced is not None and [forced] == _ids(settings, "eos_token_id", config)


def _search_config(config):
    path = config.path.with_name("generation_config.json")
    return Config.load(path) if path.is_file() else config


def _faults(settings, config, ends, beams):
    """Returns the keys of settings that searches here lack."""
    known = {*NEUTRAL, *HARMLESS, *HONOURED}
    faults = [key for key in settings.values if settings is not config and key not in known]
    for key, neutral in NEUTRAL.items():
        value = settings.values.get(key)
        fits = value in (None, neutral, []) and value is not True
        fits = fits or beams == 1 and key in ("early_stopping", "length_penalty", "diversity_penalty")
        fits = fits or key == "length_penalty" and value == 0
        if not (fits or key == "forced_eos_token_id" and [value] == ends):
            faults.append(key)
    faults += ["eos_token_id"] * (len(ends) > 1)
    faults += ["bad_words_ids"] * any(len(word) > 1 for word in _bad_words(settings, config))
    faults += ["suppress_tokens"] * bool({*ends} & {*_ids(settings, "suppress_tokens", config)})
    return faults


def _ids(settings, key, config):
    """Returns the token ids of a key, a number or a list, from `settings` or else `config`."""
    for source in (settings, config):
        ids = source.values.get(key)
        if ids is not None:
            ids = ids if isinstance(ids, list) else [ids]
            _check_ids(ids, key, source, config)
            return ids
    return []


def _bad_words(settings, config):
    words = settings.values.get("bad_words_ids") or []
    if not isinstance(words, list) or not all(isinstance(word, list) for word in words):
        raise ValueError(f"`bad_words_ids` must be a list of lists. Received: {words!r} in {settings.path}")
    for word in words:
        _check_ids(word, "bad_words_ids", settings, config)
    return words


def _check_ids(ids, key, settings, config):
    size = max(config["vocab_size"], config.get("decoder_vocab_size") or 0)
    if any(isinstance(token, bool) or not isinstance(token, int) or not 0 <= token < size for token in ids):
        raise ValueError(f"`{key}` must be token ids, 0 to {size - 1}. Received: {ids!r} in {settings.path}")


def _places(config):
    """Returns a function from the checkpoint's ids to this library's: translators swap padding and id 0."""
    if config["model_type"] not in ("marian", "m2m_100", "blenderbot"):
        return lambda token: token
    pad_id = config.integer("pad_token_id")
    return lambda token: {0: pad_id, pad_id: 0}.get(token, token)
