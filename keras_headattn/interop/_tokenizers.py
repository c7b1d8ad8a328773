"""Tokenizers of checkpoints, with the token ids of our models."""

import json
import pathlib

from keras_headattn.interop._configs import Config

# Kinds of pieces in a SentencePiece model.
NORMAL, UNKNOWN, CONTROL, USER_DEFINED, UNUSED = 1, 2, 3, 4, 5
UNIGRAM = 1
WORD_START = "\N{LOWER ONE EIGHTH BLOCK}"


def read_tokenizer(path, arguments):
    """See `tokenizer_of`."""
    if not path.is_dir():
        raise FileNotFoundError(f"There is no such folder. Received: {path}")
    file = path / "config.json"
    config = Config.load(file if file.exists() else _need(path, "bert_config.json"))
    if "registered_name" in config.values:
        return _of_preset(path, Config(config["config"], config.path), arguments)
    kind = config.get("model_type", "bert")
    readers = {"marian": _marian, "bert": _word_pieces, "electra": _word_pieces, "roberta": _byte_pairs, "t5": _t5}
    if kind not in readers:
        raise ValueError(f"Tokenizers are read of {', '.join(readers)}. Received: {kind} in {path}")
    return readers[kind](path, config, arguments)


def _need(path, name):
    if not (path / name).exists():
        raise FileNotFoundError(f"The folder lacks {name}, of the tokenizer. Received: {path}")
    return path / name


def _check_size(tokenizer, config, key="vocab_size"):
    """Every id of a tokenizer must have an embedding; some tables have more rows, for the speed of some machines."""
    if tokenizer.vocabulary_size > config[key]:
        raise ValueError(
            "The vocabulary must be that of the model. "
            f"Received: {tokenizer.vocabulary_size} tokens for {key}={config[key]} in {config.path}"
        )
    return tokenizer


def _settings(path):
    file = path / "tokenizer_config.json"
    return Config.load(file).values if file.exists() else {}


def _word_pieces(path, config, arguments):
    from keras_headattn.text import WordPieceTokenizer

    settings = _settings(path)
    given = {"lowercase": settings.get("do_lower_case", True), **arguments}
    apart = settings.get("tokenize_chinese_chars", True)
    if settings.get("strip_accents") not in (None, given["lowercase"]) or not apart:
        raise ValueError(
            "Accents must go where letters become lower case, and Chinese characters must stand apart. Received: "
            f"strip_accents={settings.get('strip_accents')}, do_lower_case={given['lowercase']}, "
            f"tokenize_chinese_chars={apart} in {path}"
        )
    return _check_size(WordPieceTokenizer(_need(path, "vocab.txt"), **given), config)


def _byte_pairs(path, config, arguments):
    from keras_headattn.text import BytePairTokenizer

    given = {"add_prefix_space": _settings(path).get("add_prefix_space", False), **arguments}
    return _check_size(BytePairTokenizer(_need(path, "vocab.json"), _need(path, "merges.txt"), **given), config)


def _t5(path, config, arguments):
    from keras_headattn.text import SentencePieceTokenizer

    given = {"num_sentinels": _settings(path).get("extra_ids", 100), **arguments}
    return _check_size(SentencePieceTokenizer(_need(path, "spiece.model"), **given), config)


def _of_preset(path, config, arguments):
    """That of a preset of KerasHub, by the file of its vocabulary.

    KerasHub's own leaves accents in lower-cased text, which BERT was trained without: here they go.
    """
    from keras_headattn.text import BytePairTokenizer, SentencePieceTokenizer, WordPieceTokenizer

    settings = Config.load(_need(path, "tokenizer.json"))["config"]
    folder = path / "assets" / "tokenizer"
    if (folder / "vocabulary.txt").exists():
        fixed = dict(split=True, suffix_indicator="##", oov_token="[UNK]")
        if different := {key: settings[key] for key in fixed if settings.get(key, fixed[key]) != fixed[key]}:
            raise ValueError(f"The preset must have BERT's word pieces. Received: {different} in {path}")
        tokenizer = WordPieceTokenizer(
            folder / "vocabulary.txt", **{"lowercase": settings.get("lowercase", False), **arguments}
        )
    elif (folder / "vocabulary.json").exists():
        given = {"add_prefix_space": settings.get("add_prefix_space", False), **arguments}
        tokenizer = BytePairTokenizer(folder / "vocabulary.json", _need(folder, "merges.txt"), **given)
    else:
        tokenizer = SentencePieceTokenizer(_need(folder, "vocabulary.spm"), **arguments)
    return _check_size(tokenizer, config, "vocab_size" if "vocab_size" in config.values else "vocabulary_size")


def _marian(path, config, arguments):
    from keras_headattn.text import LanguagePair, SentencePieceTokenizer

    protos = marian_vocabularies(path, config)
    return LanguagePair(*(SentencePieceTokenizer(proto, **arguments) for proto in protos))


def marian_vocabularies(path, config=None):
    """The SentencePiece models of a Marian folder, of source and target, whose ids are those of our `Transformer`.

    Marian looks pieces up in a vocabulary of its own, vocab.json. These models have its tokens at its ids, with padding
    and the token of id 0 in each other's places, and the scores of the folder's models. Padding begins a translation,
    as in Marian. Tokens of the vocabulary that a model has not are never found in text. Pieces of a model that the
    vocabulary has not are left out: text with such a piece is split into others, where Marian has an unknown token.

    Args:
        path: str or path of the folder.
        config: its configuration. Default `None`: it is read.

    Returns:
        `(bytes, bytes)`, which `SentencePieceTokenizer` takes.

    Raises:
        FileNotFoundError, ValueError: if a file is missing, or the vocabulary is of another size than the model.
    """
    path = pathlib.Path(path)
    config = config or Config.load(_need(path, "config.json"))
    ids = {"source": _read_ids(_need(path, "vocab.json")), "target": None}
    separate = not config.get("share_encoder_decoder_embeddings", True)
    ids["target"] = _read_ids(_need(path, "target_vocab.json")) if separate else ids["source"]
    sizes = {"source": config["vocab_size"], "target": config.get("decoder_vocab_size") or config["vocab_size"]}
    protos = []
    for side, vocabulary in ids.items():
        if len(vocabulary) != sizes[side]:
            raise ValueError(
                "The vocabulary must be that of the model. "
                f"Received: {len(vocabulary)} tokens of the {side} for {sizes[side]} rows in {path}"
            )
        protos.append(_renumber(_need(path, f"{side}.spm"), vocabulary, config["pad_token_id"]))
    return tuple(protos)


def _read_ids(path):
    try:
        ids = json.loads(path.read_text(encoding="utf-8"))
        if sorted(ids.values()) != list(range(len(ids))) or not {"<pad>", "</s>", "<unk>"} <= set(ids):
            raise ValueError("ids from 0 on, with <pad>, </s> and <unk>, are needed")
    except (ValueError, AttributeError, TypeError) as error:
        raise ValueError(f"The vocabulary cannot be read. Received: {path} ({error})") from error
    return ids


def _renumber(path, ids, pad_id):
    from sentencepiece.sentencepiece_model_pb2 import ModelProto

    model = ModelProto()
    try:
        model.ParseFromString(path.read_bytes())
    except Exception as error:  # protobuf's own class of error has moved between its versions
        raise ValueError(f"The file must be a SentencePiece model. Received: {path}") from error
    scores = {piece.piece: piece.score for piece in model.pieces if piece.type in (NORMAL, USER_DEFINED)}
    # One that is merged from bytes would use pieces that are only marked as unused.
    absent = UNUSED if model.trainer_spec.model_type == UNIGRAM else CONTROL
    tokens = [token for token, _ in sorted(ids.items(), key=lambda item: item[1])]
    tokens[0], tokens[pad_id] = tokens[pad_id], tokens[0]
    del model.pieces[:]
    for token in tokens:
        piece = model.pieces.add(piece=token, score=scores.get(token, 0.0))
        piece.type = NORMAL if token in scores else absent
        if token in ("<pad>", "</s>"):
            piece.type = CONTROL
        elif token == "<unk>":
            piece.type = UNKNOWN
        elif token.startswith(">>") and token.endswith("<<"):
            # The language to translate to, at the beginning of a text.
            piece.piece, piece.type = WORD_START + token, USER_DEFINED
    specials = model.trainer_spec
    specials.pad_id, specials.bos_id, specials.pad_piece, specials.bos_piece = 0, 0, "<pad>", "<pad>"
    specials.eos_id, specials.eos_piece = tokens.index("</s>"), "</s>"
    specials.unk_id, specials.unk_piece = tokens.index("<unk>"), "<unk>"
    specials.vocab_size = len(tokens)
    return model.SerializeToString()
