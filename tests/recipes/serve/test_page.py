"""The page of what heads look at, in a real browser: from the local server, and as one file with its data."""

import re

import numpy as np
import pytest
import tensorflow as tf

from keras_headattn.analysis import write_attention_page
from keras_headattn.serving import save_signatures, write_examples
from tests.chromium import chromium
from tests.recipes.serve.local_server import local_server

SOURCE, TARGET = ["▁two", "<unk>", "s", "</s>"], ["▁zwei", "▁Katzen", "<img src=x onerror=hacked=1>", "</s>"]
BAD = "<script>hacked=1</script><b>zwei</b> Katzen"
RANDOM = np.random.default_rng(0)
WEIGHTS = RANDOM.uniform(-0.4, 1, (1, 2, 3, 4, 4)).astype("float32")
POOLING = RANDOM.dirichlet(np.ones(3), (1, 5)).astype("float32")
# Of each word of a text: how opaque its background is, and whether it is marked as negative.
OPACITY = """[...document.querySelectorAll('%s')].map(word => {
    const [alpha] = getComputedStyle(word).backgroundColor.match(/(?<=[/] |rgba[(].*, )[\\d.e-]+(?=[)])/) ?? [1];
    return [Number(alpha), word.dataset.sign === 'negative'];
})"""


def repeated(value, text):
    """A constant for each text."""
    value = tf.constant(value)
    return tf.repeat(value[None], tf.size(text), axis=0)


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    """Models that always answer the same: a translation, classes, and one without maps."""
    folder = tmp_path_factory.mktemp("models")

    def translate(text):
        return {"translations": repeated(BAD, text), "scores": repeated(-0.25, text)}

    def cut(text):
        return {"is_cut": tf.strings.length(text) > 50}

    def translate_maps(text):
        maps = {"source_pieces": SOURCE, "target_pieces": TARGET, "weights": WEIGHTS[0]}
        return translate(text) | cut(text) | {name: repeated(value, text) for name, value in maps.items()}

    def classify(text):
        return {"classes": repeated(["good", "bad"], text), "scores": repeated([0.75, 0.25], text)}

    def classify_maps(text):
        pieces = {"pieces": repeated(["a", "good", "film"], text)}
        return classify(text) | pieces | {"pooling": repeated(POOLING[0], text)}

    def find(question, context):
        has_answer = tf.strings.length(question) > 3
        found = {"answers": tf.stack([context, question], axis=1), "scores": repeated([0.75, 0.25], question)}
        return found | {"has_answer": has_answer, "no_answer_score": repeated(0.5, question)}

    text = [tf.TensorSpec((None,), tf.string, name="text")]
    asked = [tf.TensorSpec((None,), tf.string, name=name) for name in ("question", "context")]
    models = {
        "demo": {"serving_default": (translate, text), "attention": (translate_maps, text)},
        "reviews": {"serving_default": (classify, text), "attention": (classify_maps, text)},
        "plain": {"serving_default": (lambda text: translate(text) | cut(text), text)},
        "questions": {"serving_default": (find, asked)},
        "digits": {"serving_default": (lambda x: {"y": x}, [tf.TensorSpec((None,), tf.float32, name="x")])},
    }
    for name, signatures in models.items():
        path = save_signatures(signatures, folder / name)
        if name == "demo":
            write_examples(path, [{"text": "two cats"}, {"text": "<b>three</b>"}])
        elif name == "questions":
            write_examples(path, [{"question": "Who?", "context": "Ann runs"}])
    with local_server({name: folder / name for name in models}) as it:
        yield it


@pytest.fixture(scope="module")
def page(server):
    with chromium(f"{server.url}/") as it:
        it.wait("document.querySelector('#model-0').value === 'demo'")
        yield it


def run(page, text="two cats", model="demo", other=""):
    for number, name in enumerate((model, other)):
        page.fill(f"#model-{number}", name)
        if not name:
            page.js("document.querySelector('#model-1').value = ''")
    page.fill("#text", text)
    page.js("document.querySelectorAll('.view').forEach(view => view.id = 'before')")
    page.press("Enter")
    page.wait("document.querySelector('.view:not(#before)') || !document.querySelector('#error').hidden")
    page.wait("!document.querySelector('#go').disabled")


def check_words(page, selector, weights, most):
    """The words are as opaque as their weights are large."""
    opacities, negative = zip(*page.js(OPACITY % selector), strict=True)
    np.testing.assert_allclose(opacities, np.abs(weights) / most, atol=0.005)
    assert list(negative) == [bool(weight < 0 and -weight > 0.05 * most) for weight in weights]


def test_the_first_screen(page):
    """Comes first: there is no answer yet."""
    assert page.js("[...document.querySelectorAll('#models option')].map(option => option.value)") == [
        "demo", "reviews", "plain", "questions"
    ]  # of digits it cannot ask  # fmt: skip
    examples = "[...document.querySelectorAll('#examples button')]"
    assert page.js(f"{examples}.map(button => button.textContent)") == ["two cats", "<b>three</b>"]
    for model, texts in (("questions", ["Who? | Ann runs"]), ("plain", []), ("demo", ["two cats", "<b>three</b>"])):
        page.fill("#model-0", model)
        page.js("document.querySelector('#model-0').dispatchEvent(new Event('change'))")
        assert page.js(f"{examples}.map(button => button.textContent)") == texts
    page.js(f"{examples}[0].click()")
    page.wait("document.querySelector('.view')")
    assert page.js("document.querySelector('#text').value") == "two cats"
    assert page.js("document.querySelector('#start').hidden")


def test_translation(page):
    run(page)
    texts = "[...document.querySelectorAll('.words')].map(words => words.textContent)"
    assert page.js("document.querySelector('.answer').textContent") == BAD
    assert page.js(texts) == ["twocats</s>", "zweiKatzen<img src=x onerror=hacked=1></s>"]
    assert page.js("document.querySelectorAll('#views img, #views b, #views script').length") == 0
    assert page.js("typeof hacked") == "undefined"
    assert page.js("document.querySelector('.score').textContent") == "score \u22120.250, surer near 0"
    axes = "document.querySelector('.head .axes').textContent"
    assert page.js(axes) == "↓ writtenread →"
    unknown = "document.querySelector('.word.unknown')"
    assert page.js(f"{unknown}.getAttribute('aria-label')") == "cat, a word that the model does not know"

    last, most = WEIGHTS[0, 1], np.abs(WEIGHTS[0, 1]).max()
    page.hover(".texts > :nth-child(2) .word:nth-child(2)")  # a word that was written
    check_words(page, ".texts > :nth-child(1) .word", last[:, 1].mean(0), most)
    for head in range(3):
        check_words(page, f".head:nth-child({head + 1}) .strip span", last[head, 1], most)
    best = np.abs(last[:, 1].mean(0)).argmax()
    said = page.js("document.querySelector('.view [role=status]').textContent")
    assert "“Katzen” was written looking at" in said and SOURCE[best].strip("▁") in said

    page.hover(".texts > :nth-child(1) .word:nth-child(3)")  # one that was read
    check_words(page, ".texts > :nth-child(2) .word", last[:, :, 2].mean(0), most)
    page.js("document.querySelector('.head:nth-child(2) > button').click()")  # of one head
    check_words(page, ".texts > :nth-child(2) .word", last[1, :, 2], most)
    page.js("document.querySelector('.head:nth-child(2) > button').click()")


def test_pictures_of_maps(page):
    run(page)
    pixels = page.js(
        "[...document.querySelectorAll('.head canvas')].map(c => "
        "[...c.getContext('2d').getImageData(0, 0, c.width, c.height).data].filter((_, i) => i % 4 === 3))"
    )
    most = np.abs(WEIGHTS[0, 1]).max()
    np.testing.assert_allclose(np.reshape(pixels, (3, 4, 4)) / 255, np.abs(WEIGHTS[0, 1]) / most, atol=0.01)
    page.js(
        "(select => { select.selectedIndex = 0; select.dispatchEvent(new Event('change')); })"
        "(document.querySelector('.view select'))"
    )
    page.hover(".texts > :nth-child(2) .word:nth-child(1)")
    check_words(page, ".head:nth-child(1) .strip span", WEIGHTS[0, 0, 0, 0], np.abs(WEIGHTS[0, 0]).max())


def test_keyboard(page):
    run(page)
    chosen = "[...document.querySelectorAll('.word[aria-pressed=true]')].map(word => word.textContent)"
    page.js("document.querySelector('.texts > :nth-child(2) .word').focus()")
    page.press("ArrowRight")
    assert page.js(chosen) == ["Katzen"] == [page.js("document.activeElement.textContent")]
    assert page.js("getComputedStyle(document.activeElement).outlineStyle") == "solid"
    page.press("Tab")  # leaves the words: they are one stop
    assert page.js("document.activeElement.tagName") == "SELECT"
    page.press("Tab")
    assert page.js("document.activeElement.textContent") == "Head 1"
    page.press(" ")
    assert page.js("document.activeElement.getAttribute('aria-pressed')") == "true"
    unnamed = (
        "[...document.querySelectorAll('button, input, select, canvas, img')].filter(e => !(e.textContent || "
        "e.labels?.length || e.hasAttribute('aria-label') || e.hasAttribute('alt'))).length"
    )
    assert page.js(unnamed) == 0
    page.js("document.querySelector('details').open = true")
    page.wait("document.querySelector('table')")
    assert page.js("document.querySelectorAll('tbody tr').length") == 3


def test_classes_beside_a_translation(page):
    run(page, model="reviews", other="demo/versions/1")
    assert page.js("[...document.querySelectorAll('h2')].map(h => h.textContent)") == ["reviews", "demo/versions/1"]
    assert page.js("document.querySelector('.classes').textContent") == "good0.750bad0.250"
    boxes = page.js("[...document.querySelectorAll('.view')].map(v => v.getBoundingClientRect().top)")
    assert boxes[0] == boxes[1]  # side by side
    first = ".view:first-child"
    check_words(page, f"{first} .word", POOLING[0].mean(0), POOLING.max())
    check_words(page, f"{first} .head:nth-child(4) .strip span", POOLING[0, 3], POOLING.max())


def test_a_word_is_chosen_in_both_models(page):
    run(page, other="demo/versions/1")
    page.hover(".view:first-child .texts > :nth-child(2) .word:nth-child(2)")
    most = np.abs(WEIGHTS[0, 1]).max()
    for number in (1, 2):
        check_words(page, f".view:nth-child({number}) .head:nth-child(1) .strip span", WEIGHTS[0, 1, 0, 1], most)


def test_errors_and_models_without_maps(page):
    run(page)
    run(page, text="x" * 65_537)
    error, views = (
        "document.querySelector('#error[role=alert]').textContent",
        "document.querySelectorAll('.view').length",
    )
    assert "A text may have 65,536 bytes. Received: 65,537 bytes" in page.js(error)
    assert page.js(views) == 0  # no answer to another text
    run(page, model="none")
    assert page.js(error) == "There is no model “none” here. There are: demo, reviews, plain, questions."
    assert 0 < page.js("document.querySelector('#error').getBoundingClientRect().bottom") < 300
    run(page, model="http://localhost:1/v1/models/none")
    assert page.js(error).startswith("The server does not answer")
    run(page, model="demo/versions/9")
    assert page.js(error) == "There is no version “demo/versions/9” here."
    run(page, model="digits")
    assert page.js(error) == "digits takes no text."
    run(page, model="plain")
    assert page.js("document.querySelector('#error').hidden")
    assert "without the signature" in page.js("document.querySelector('.view').textContent")
    assert page.js("document.querySelector('.answer').textContent") == BAD


def test_a_question_is_asked_of_a_text(page):
    labels = "[...document.querySelectorAll('#ask .wide:not([hidden]) label')].map(label => label.textContent).join()"
    assert page.js(labels) == "Text"
    page.fill("#model-0", "questions")
    page.js("document.querySelector('#model-0').dispatchEvent(new Event('change'))")
    page.wait(f"{labels} === 'Question,Text'")
    page.fill("#second-text", "<b>Ann</b> runs")
    run(page, "Who?", "questions")
    classes = "[...document.querySelectorAll('.classes li')].map(line => line.textContent)"
    assert page.js(classes) == ["<b>Ann</b> runs0.750", "Who?0.250"]
    assert "without the signature" not in page.js("document.querySelector('.view').textContent")
    run(page, "Who", "questions")
    assert page.js("document.querySelector('.answer').textContent") == "Nothing was found."
    assert "0.500" in page.js("document.querySelector('.view > .said').textContent")
    page.fill("#model-0", "demo")
    page.js("document.querySelector('#model-0').dispatchEvent(new Event('change'))")
    page.wait(f"{labels} === 'Text'")


def test_what_was_cut_is_said(page):
    note = "document.querySelector('.view > .said').textContent"
    run(page, text="two cats " * 8)
    assert page.js(note).startswith("The text was cut at 4 tokens: it is longer than this model reads")
    run(page, text="two cats " * 8, model="plain")
    assert page.js(note).startswith("The text was cut: it is longer than this model reads")
    run(page)
    assert "cut" not in page.js("document.querySelector('.view').textContent")


def test_maps_of_long_texts_can_be_seen(page):
    run(page)
    heights = "[...document.querySelectorAll('.map canvas')].map(canvas => canvas.getBoundingClientRect().height)"
    page.js("document.querySelectorAll('.map canvas').forEach(canvas => canvas.style.setProperty('--columns', '128'))")
    assert min(page.js(heights)) >= 40


def test_themes(page):
    run(page)
    color = "getComputedStyle(document.body).backgroundColor"
    alpha = OPACITY % ".strip span"
    page.media("light")
    light, opacities = page.js(color), page.js(alpha)
    page.media("dark")
    dark = page.js(color)
    assert light != dark and page.js(alpha) == opacities
    page.js("document.querySelector('#theme').click()")  # light, whatever the system prefers
    assert page.js(color) == light and page.js("document.documentElement.dataset.theme") == "light"
    page.js("document.querySelector('#theme').click()")
    page.media("light")
    assert page.js(color) == dark
    page.js("document.querySelector('#theme').click()")
    assert page.js(color) == light


def test_nothing_leaves_the_host(page, server):
    """After all that: no other host was asked, and the policy forbade nothing that the page does."""
    run(page, model="http://example.com/v1/models/demo")
    assert page.js("document.querySelector('#error').textContent").startswith("The server does not answer")
    hosts = {re.sub(r"^(\w+://[^/]+|data:).*", r"\1", url) for url in page.asked}
    assert hosts <= {server.url, "http://localhost:1", "data:", "http://example.com"}
    refused = [line for line in page.console if "Content Security Policy" in line]
    assert refused and all("http://example.com" in line for line in refused)
    assert page.js("fetch('http://example.com').then(() => 'sent', error => 'refused')") == "refused"


def test_one_file(tmp_path):
    tokens = ["</script><script>hacked=1</script>", "<!--<script>", "&lt;b&gt;\u2028"]
    square = RANDOM.dirichlet(np.ones(3), (2, 3))
    grid = RANDOM.dirichlet(np.ones(6), (2, 6))
    image = RANDOM.uniform(size=(4, 6, 3))
    examples = [
        {"maps": {"block 1": square, "pooling": square[0]}, "tokens": tokens, "name": "text", "answer": "<b>good</b>"},
        {"maps": {"stage 1": grid}, "image": image, "size": (2, 3), "name": "picture"},
    ]
    write_attention_page(tmp_path / "maps.html", examples, title="<i>Maps</i>")
    with chromium((tmp_path / "maps.html").as_uri()) as page:
        assert page.js("document.title") == page.js("document.querySelector('h1').textContent") == "<i>Maps</i>"
        assert page.js("[...document.querySelectorAll('.word')].map(word => word.textContent)") == tokens
        assert page.js("typeof hacked") == "undefined"
        check_words(page, ".head:nth-child(2) .strip span", square[0, 1], square[0].max())
        page.js("[...document.querySelectorAll('#choose select')].map((select, i) => { select.selectedIndex = 1 + i; "
                "select.dispatchEvent(new Event('change')); })")  # fmt: skip
        assert page.js("document.querySelectorAll('.view').length") == 2
        page.js("document.querySelector('.picture').focus()")
        assert "row 2, column 2" in page.js("document.querySelector('.picture').getAttribute('aria-label')")
        page.press("ArrowLeft")
        pixels = page.js(
            "[...document.querySelector('.head canvas').getContext('2d').getImageData(0, 0, 3, 2).data]"
            ".filter((_, i) => i % 4 === 3)"
        )
        np.testing.assert_allclose(np.array(pixels) / 255, grid[0, 3] / grid[:, 3].max(), atol=0.01)
        assert page.console == []
        assert {url.partition(":")[0] for url in page.asked} <= {"file", "data"}
