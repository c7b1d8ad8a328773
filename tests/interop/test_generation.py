"""Settings of a search in a checkpoint's files, and what searches here do not have."""

import json

import pytest

from keras_headattn.interop import from_pretrained, generation_settings
from tests.interop.folders import write
from tests.refusals import refused


def with_settings(folder, values, **config):
    write(folder, "t5", **config)
    if values is not None:
        (folder / "generation_config.json").write_text(json.dumps(values))
    return folder


@pytest.mark.parametrize("values, config, expected", [
    (None, {}, {}),
    (None, {"num_beams": 4, "max_length": 20}, {"beam_size": 4, "max_length": 19}),
    ({"num_beams": 4, "length_penalty": 0.0}, {"num_beams": 2}, {"beam_size": 4, "alpha": 0.0}),
    ({"max_new_tokens": 20, "max_length": 9, "temperature": 0.5}, {}, {"max_length": 20}),
    ({"eos_token_id": [1], "bad_words_ids": [[9], [1]], "suppress_tokens": [8]}, {}, {"suppress": [8, 9]}),
    ({"forced_eos_token_id": 1, "early_stopping": True, "no_repeat_ngram_size": None}, {}, {"force_end": True}),
    ({"min_length": 5, "no_repeat_ngram_size": 3}, {}, {"min_length": 4, "no_repeat_ngram_size": 3}),
    ({"min_length": 1}, {}, {"min_length": 0}),
    ({"decoder_start_token_id": 7, "num_beams": 2, "length_penalty": 1}, {}, {"beam_size": 2, "start_id": 7}),
])  # fmt: skip
def test_arguments_of_a_search(values, config, expected, tmp_path):
    folder = with_settings(tmp_path, values, **config)
    usual = dict(beam_size=1, start_id=0, end_id=1, suppress=[], force_end=False)
    assert generation_settings(folder) == usual | expected
    model = from_pretrained(folder)
    assert list(model.suppress) == expected.get("suppress", [])
    assert model.force_end == expected.get("force_end", False)


@pytest.mark.parametrize("values", [
    {"encoder_no_repeat_ngram_size": 2}, {"repetition_penalty": 1.2},
    {"do_sample": True}, {"begin_suppress_tokens": [5]}, {"forced_bos_token_id": 4}, {"forced_eos_token_id": 4},
    {"eos_token_id": [1, 5]}, {"bad_words_ids": [[4, 5]]}, {"suppress_tokens": [1]}, {"a_new_one": 1},
    {"num_beams": 2, "early_stopping": True}, {"num_beams": 2, "length_penalty": 2.0}, {"num_beam_groups": 2},
    {"exponential_decay_length_penalty": [3, 1.1]}, {"forced_decoder_ids": [[1, 2]]}, {"sequence_bias": [[[3], 1.0]]},
])  # fmt: skip
def test_what_searches_here_do_not_have(values, tmp_path):
    folder, key = with_settings(tmp_path, values), list(values)[-1]
    with refused(f"ignore=['{key}']", f"{key}={values[key]} in {folder}"):
        generation_settings(folder)
    assert generation_settings(folder, ignore=[key])["start_id"] == 0
    assert from_pretrained(folder).suppress == ()


@pytest.mark.parametrize("values, name, received", [
    ({"bad_words_ids": 5}, "bad_words_ids", "5 in "),
    ({"bad_words_ids": [[30]]}, "bad_words_ids", "[30] in "),
    ({"suppress_tokens": ["x"]}, "suppress_tokens", "['x'] in "),
    ({"eos_token_id": -1}, "eos_token_id", "[-1] in "),
    ([], "configuration", "generation_config.json with a list"),
])  # fmt: skip
def test_damaged_settings(values, name, received, tmp_path):
    for read in (generation_settings, from_pretrained):
        with refused(name, received):
            read(with_settings(tmp_path, values))


@pytest.mark.parametrize("name, value", [("num_beams", 0), ("max_length", 1)])
def test_numbers_that_make_no_sense(name, value, tmp_path):
    with refused(name, f"{name}={value} in {tmp_path}"):
        generation_settings(with_settings(tmp_path, {name: value}))


def test_models_that_do_not_generate(tmp_path):
    with refused("t5", "model_type='bert' in "):
        generation_settings(write(tmp_path, "bert"))
