"""Parts of a translation run that TensorBoard shows. docs/tensorboard.md says how to look at them."""

import math

import keras

from keras_headattn.training import Utilization, write_projector
from recipes.translate.text import inputs_and_tokens, pieces


def flops_utilization(transformer, batches, peak_flops):
    """`Utilization` by the weights that multiply a token, without products of queries, keys and maps."""
    encoder, decoder = (
        sum(math.prod(weight.shape) for block in blocks for weight in block.weights if weight.path.endswith("kernel"))
        for blocks in (transformer.encoder_blocks, transformer.decoder_blocks)
    )
    decoder += math.prod(transformer.target_embedding.embeddings.shape)  # the shape of the output layer's kernel
    tokens = batches.num_tokens
    return Utilization(6 * (encoder * tokens["source"] / tokens["target"] + decoder), peak_flops)


def show_embeddings(run, transformer, text):
    """Writes the embeddings of the tokens, for the projector."""
    embeddings = {"target": _labelled(transformer.target_embedding, text.target)}
    if transformer.source_embedding is not transformer.target_embedding:
        embeddings["source"] = _labelled(transformer.source_embedding, text.source)
    write_projector(run.folder / "tensorboard", embeddings)


def _labelled(embedding, tokenizer):
    return embedding.embeddings, pieces(tokenizer, range(embedding.embeddings.shape[0]))


def attention_of_samples(transformer, text, corpus, number=2):
    """Returns a function from the model to all maps of sentences of middling length, for `AttentionImages`."""
    order = sorted(range(len(corpus)), key=lambda i: abs(len(corpus.source[i].split()) - 10))[:number]
    sides = [[side[i] for i in order] for side in (corpus.source, corpus.target)]
    inputs, tokens = inputs_and_tokens(text, *sides)

    def attend(model):
        _, out = transformer(inputs, return_intermediates=True)
        images = {}
        for path, layer_outputs in out.items():
            block, attention = path.split("/")
            side, layer = block.split("_")
            kind = "cross" if attention == "cross_attention" else side
            name = "cross-attention" if kind == "cross" else f"{kind} self-attention"
            queries, keys = tokens[kind]
            batch, layer_number = keras.ops.convert_to_numpy(layer_outputs["weights"]), int(layer) + 1
            for sentence in range(len(order)):
                heads = batch[sentence].reshape(-1, *batch.shape[-2:])  # one head axis, for pairs of heads too
                title = f"sentence {sentence + 1}/{name}, layer {layer_number}"
                images[title] = heads, queries[sentence], keys[sentence]
        return images

    return attend


def of_first_sample(attend):
    """Returns a function from the model to the weights `(1, h, n, m)` of each layer in the first sentence."""

    def weights(model):
        return {
            name.partition("/")[2]: maps[None, :, : len(queries), : len(keys)]
            for name, (maps, queries, keys) in attend(model).items()
            if name.startswith("sentence 1/")
        }

    return weights
