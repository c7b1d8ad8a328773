"""SentencePiece models with the token ids of checkpoints."""

import base64
import io
import pathlib
import re
import tempfile

# Kinds of pieces.
NORMAL, UNKNOWN, CONTROL, USER_DEFINED, UNUSED, BYTE = 1, 2, 3, 4, 5, 6
UNIGRAM, WORD = 1, 3
WORD_START = "\N{LOWER ONE EIGHTH BLOCK}"
SENTINEL = re.compile(f"{WORD_START}<extra_id_[0-9]+>")


def read_model(path):
    from keras_headattn.text._sentencepiece_protos import parse_proto, read_proto

    return parse_proto(read_proto(path))


def _set_specials(model, **tokens):
    """Marks special pieces; `None` for those the model lacks."""
    names = [piece.piece for piece in model.pieces]
    for name, token in tokens.items():
        setattr(model.trainer_spec, f"{name}_id", -1 if token is None else names.index(token))
        if token is not None:
            setattr(model.trainer_spec, f"{name}_piece", token)
    model.trainer_spec.vocab_size = len(names)


def marian_model(path, ids, pad_id, start_id):
    """Returns the bytes of a model with Marian's vocabulary, see `marian_vocabularies`."""
    model = read_model(path)
    kinds = (NORMAL, USER_DEFINED, BYTE)
    known = {piece.piece: (piece.score, piece.type) for piece in model.pieces if piece.type in kinds}
    # Byte pairs would be merged into pieces that are only marked unused.
    absent = UNUSED if model.trainer_spec.model_type == UNIGRAM else CONTROL
    tokens = [token for token, _ in sorted(ids.items(), key=lambda item: item[1])]
    start = tokens[start_id]  # begins a translation: often padding
    tokens[0], tokens[pad_id] = tokens[pad_id], tokens[0]
    del model.pieces[:]
    for token in tokens:
        score, kind = known.get(token, (0.0, absent))
        piece = model.pieces.add(piece=token, score=score, type=kind)
        if token in ("<pad>", "</s>", start):
            piece.type = CONTROL
        elif token == "<unk>":
            piece.type = UNKNOWN
        elif token.startswith(">>") and token.endswith("<<"):
            # The target language, at the beginning of a text.
            piece.piece, piece.type = WORD_START + token, USER_DEFINED
    _set_specials(model, pad="<pad>", bos=start, eos="</s>", unk="<unk>")
    return model.SerializeToString()


def fairseq_model(path, first):
    """Returns the bytes of a model with fairseq's ids."""
    model = read_model(path)
    present = {*first, "<mask>"}
    pieces = [(piece.piece, piece.score, piece.type) for piece in model.pieces if piece.piece not in present]
    del model.pieces[:]
    for token in first:
        model.pieces.add(piece=token, type=UNKNOWN if token == "<unk>" else CONTROL)
    for text, score, kind in pieces:
        model.pieces.add(piece=text, score=score, type=kind)
    model.pieces.add(piece="<mask>", type=CONTROL)
    _set_specials(model, pad="<pad>", bos="<s>", eos="</s>", unk="<unk>")
    return model.SerializeToString()


def word_model(words):
    """Returns the bytes of a model that splits text at spaces, with these words as the ids from 4 on."""
    from sentencepiece.sentencepiece_model_pb2 import ModelProto

    model = ModelProto()
    for token in ("<pad>", "<unk>", "<s>", "</s>"):
        model.pieces.add(piece=token, type=UNKNOWN if token == "<unk>" else CONTROL)
    for word in words:
        model.pieces.add(piece=WORD_START + word, type=NORMAL)
    model.trainer_spec.model_type = WORD
    _set_specials(model, pad="<pad>", bos="<s>", eos="</s>", unk="<unk>")
    return model.SerializeToString()


def white_space_charsmap():
    """Returns the table of a normalizer that turns white space into spaces, in base64."""
    import sentencepiece
    from sentencepiece.sentencepiece_model_pb2 import ModelProto

    spaces = [chr(code) for code in range(0x3001) if chr(code).isspace() and chr(code) not in " \x1c\x1d\x1e\x1f"]
    model = io.BytesIO()
    with tempfile.TemporaryDirectory() as folder:
        rules = pathlib.Path(folder, "rules.tsv")
        rules.write_text("".join(f"{ord(space):X}\t20\n" for space in spaces), encoding="utf-8")
        sentencepiece.SentencePieceTrainer.train(
            sentence_iterator=iter(["ab ba"]), model_writer=model, vocab_size=8, hard_vocab_limit=False,
            normalization_rule_tsv=str(rules), minloglevel=2,
        )  # fmt: skip
    charsmap = ModelProto.FromString(model.getvalue()).normalizer_spec.precompiled_charsmap
    return base64.b64encode(charsmap).decode("ascii")


def unigram_model(vocabulary, unknown, charsmap, control, path):
    """Returns the bytes of a model with the pieces of a tokenizer.json."""
    from sentencepiece.sentencepiece_model_pb2 import ModelProto

    model = ModelProto()
    for index, (token, score) in enumerate(vocabulary):
        kind = USER_DEFINED if SENTINEL.fullmatch(token) else CONTROL if control(token) else NORMAL
        model.pieces.add(piece=token, score=score, type=UNKNOWN if index == unknown else kind)
    model.trainer_spec.model_type = UNIGRAM
    try:
        model.normalizer_spec.precompiled_charsmap = base64.b64decode(charsmap, validate=True)
    except ValueError as error:
        raise ValueError(f"`precompiled_charsmap` must be base64. Received: {charsmap[:40]!r} in {path}") from error
    names = {token for token, _ in vocabulary}
    missing = [token for token in ("<pad>", "</s>") if token not in names]
    if missing or vocabulary[unknown][0] != "<unk>":
        raise ValueError(
            "The vocabulary must have <pad>, </s> and <unk>, the unknown token. "
            f"Received: one without {', '.join(missing) or '<unk> at unk_id'} in {path}"
        )
    _set_specials(model, pad="<pad>", bos="<s>" if "<s>" in names else None, eos="</s>", unk="<unk>")
    return model.SerializeToString()
