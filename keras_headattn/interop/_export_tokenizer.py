"""Tokenizers of language models as Hugging Face's files."""

import base64

from keras_headattn.interop._tokenizer_json import PRE_TOKENIZERS, SPLITS

# Files of another tokenizer, which would change this one's ids.
GONE = {"added_tokens.json": None, "special_tokens_map.json": None}


def tokenizer_files(tokenizer, size):
    """Returns files by name; `None` for those to be removed."""
    from keras_headattn.text import ByteFallbackTokenizer

    has_pieces = type(tokenizer) is ByteFallbackTokenizer
    tokenizer = tokenizer if has_pieces else _as_byte_pairs(tokenizer)
    if tokenizer.vocabulary_size > size:
        raise ValueError(
            f"`tokenizer` must have no more tokens than the model, {size}. "
            f"Received: tokenizer with {tokenizer.vocabulary_size}"
        )
    if has_pieces:
        return _sentence_pieces(tokenizer)
    config = tokenizer.get_config()
    ids = {token: index for index, token in enumerate(config["vocabulary"])}
    names = {f"{name}_token": token for name, token in tokenizer.specials.items() if token in tokenizer.vocabulary}
    settings = {"tokenizer_class": "PreTrainedTokenizerFast", "clean_up_tokenization_spaces": False, **names}
    document = dict(
        version="1.0",
        truncation=None,
        padding=None,
        added_tokens=_added_tokens(tokenizer, names),
        **_steps(tokenizer),
        post_processor=_template(tokenizer.bos_id, names["bos_token"]) if tokenizer.bos_id >= 0 else None,
        decoder=_byte_level(),
        model=dict(type="BPE", ignore_merges=tokenizer.ignore_merges, vocab=ids, merges=config["merges"]),
    )
    return {"tokenizer.json": document, "tokenizer_config.json": settings, "tokenizer.model": None, **GONE}


def _sentence_pieces(tokenizer):
    """Returns the files of a SentencePiece model, from which transformers 5 makes a tokenizer of the same ids."""
    ids = {token: index for index, token in enumerate(tokenizer.vocabulary)}
    settings = dict(
        tokenizer_class="PreTrainedTokenizerFast",
        clean_up_tokenization_spaces=False,
        add_bos_token=tokenizer.bos_id >= 0,
        add_eos_token=False,
        legacy=not tokenizer.prefix_once,
        added_tokens_decoder={str(ids[token["content"]]): dict(token) for token in tokenizer.added_tokens},
        **{f"{name}_token": token for name, token in tokenizer.specials.items()},
    )
    proto = base64.b64decode(tokenizer.get_config()["proto"])
    return {"tokenizer.model": proto, "tokenizer_config.json": settings, "tokenizer.json": None, **GONE}


def _as_byte_pairs(tokenizer):
    """Returns the tokenizer, or that of bytes as one of byte pairs, if Hugging Face's can compute what it does."""
    from keras_headattn.text import BytePairTokenizer, ByteTokenizer
    from keras_headattn.text._byte_pair_tokenizer import byte_signs

    if type(tokenizer) is ByteTokenizer:  # byte pairs without merges
        end = tokenizer.id_to_token(tokenizer.eos_id)
        tokenizer = BytePairTokenizer([*byte_signs(), end], [], specials={"eos": end}, add_eos=False)
    if type(tokenizer) is not BytePairTokenizer:
        raise ValueError(
            "`tokenizer` must be a BytePairTokenizer, ByteTokenizer or ByteFallbackTokenizer; leave it out to write "
            f"the model alone. Received: tokenizer={tokenizer!r}"
        )
    if tokenizer.eos_id >= 0 and tokenizer.add_eos:
        raise ValueError(
            "`tokenizer` of a language model must not end texts: make it with `add_eos=False`. Received: add_eos=True"
        )
    missing = sorted({*byte_signs()} - {*tokenizer.vocabulary})
    if tokenizer.unk_id >= 0 and missing:
        raise ValueError(
            '`tokenizer` must have all 256 bytes in its vocabulary, or no "unk" in `specials`. '
            f"Received: tokenizer without {', '.join(missing[:5])}"
        )
    return tokenizer


def _byte_level(add_prefix_space=False, use_regex=True):
    return dict(type="ByteLevel", add_prefix_space=add_prefix_space, trim_offsets=True, use_regex=use_regex)


def _steps(tokenizer):
    """Returns what splits a text into words."""
    normalizers, steps = PRE_TOKENIZERS[tokenizer.pre_tokenizer]
    last = _byte_level(tokenizer.add_prefix_space, use_regex=not any(step in SPLITS.values() for step in steps))
    words = {"type": "Sequence", "pretokenizers": [*steps, last]} if steps else last
    return {"normalizer": normalizers[0] if normalizers else None, "pre_tokenizer": words}


def _added_tokens(tokenizer, names):
    """Returns special and added tokens in the order of ids."""
    options = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": False, "special": True}
    tokens = {token: {**options, "content": token, "lstrip": name == "mask_token"} for name, token in names.items()}
    tokens |= {token["content"]: {**options, **token} for token in tokenizer.added_tokens}
    return [{"id": index, **tokens[token]} for index, token in enumerate(tokenizer.vocabulary) if token in tokens]


def _template(index, token):
    """Returns the step that begins every text with a token."""
    first, second = (
        [{"SpecialToken": {"id": token, "type_id": side}}, {"Sequence": {"id": "AB"[side], "type_id": side}}]
        for side in (0, 1)
    )
    special = {token: {"id": token, "ids": [index], "tokens": [token]}}
    return {"type": "TemplateProcessing", "single": first, "pair": first + second, "special_tokens": special}
