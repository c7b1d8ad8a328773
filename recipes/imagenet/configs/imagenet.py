"""ImageNet as Wang et al. 2021, "Evolving attention with residual convolutions", train all their networks.

    python -m recipes.imagenet --config imagenet --images imagenet --attention evolving \\
        --attention-arguments alpha=0.5 beta=1

`imagenet` holds `train/n01440764/*.JPEG` and so on, and `val` alike; `--records FOLDER --num-classes 1000
--validation-split validation` reads TFRecords in place of it, `--tfds imagenet2012 --validation-split validation` what
tensorflow-datasets has.

Top-1 accuracies of the paper (table 1): ResNet-34, with `--attention multi_head` (AA) and with evolving maps (EA-AA)
73.79, 74.33, 75.23; of 50 layers 76.44, 77.70, 78.22; of 101 77.87, 78.50, 79.29; of 152 78.40, 79.10, 79.63. Its alpha
is 0.5, and 0.7 for 101 and 152 layers; table 2 has it without the skip connection (alpha=0) and the convolution
(beta=0). These settings have not been run here.

From the paper: SGD with momentum, 32 images a GPU on 8 of them, weight decay, warm-up, rates and epochs. The rate of
0.128 is for 256 images a step: with other numbers of replicas it is in proportion, as in the code of TensorFlow's
models 1.13, which the paper names. There the smallest crop is 5 % of an image, here the 8 % of Szegedy et al.; no label
smoothing.
"""

from recipes.imagenet.settings import ImageNetConfig

CONFIG = ImageNetConfig(
    validation_split="val",
)
