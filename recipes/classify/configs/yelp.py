"""Yelp reviews, 1 to 5 stars, as in An et al. 2020, "Repulsive attention", section B.2.1.

    python -m recipes.classify --config yelp --train train.csv --validation dev.csv --test test.csv \\
        --embeddings glove.840B.300d.txt --repulsive spos --seeds 1 2 3 4 5 6 7 8 9 10

The paper: 500,000 / 2,000 / 2,000 reviews, GloVe 840B with 300 numbers, 10 seeds; accuracy 69.3 without anything, 70.2
with the Frobenius regularizer, 71.2 with SVGD, 71.7 with SPOS (its table 1). All else is that of Lin et al. 2017, "A
structured self-attentive sentence embedding", section 4.1 and 4.2: LSTMs of 300 units in each direction, attention of
350 hidden units and 30 rows, 3,000 hidden units in the classifier (2,000 for Age), dropout 0.5 on it, L2 of 0.0001,
SGD with rate 0.06, gradients clipped to -0.5 to 0.5, the best epoch by the development set; penalty coefficient 1,
here `--attention-regularizer frobenius`. They name batches of 16 for Age, of 32 for Yelp.

Their published code differs: rate 0.001, dropout 0.3, batches of 50; the penalty is the mean, not the sum, of
the entries of (A A^T - I)^2, which is 1/900 of it for 30 rows; L2 is of attention and classifier, not of the LSTM.
Printed nowhere: step size, repulsive weight and temperature ("manually tuned for each task"), the number of epochs, the
size of the vocabulary, and how long reviews are cut. Their spaCy words are not ours. These settings have not been run
here.
"""

from recipes.classify.settings import ClassifyConfig

CONFIG = ClassifyConfig(
    vocabulary_size=100_000,
    max_length=300,
    model_arguments=dict(mlp_dim=3000),
    epochs=20,
    batch_size=32,
    optimizer="sgd",
    learning_rate=0.06,
    optimizer_arguments=dict(clipvalue=0.5),
    l2=1e-4,
)
