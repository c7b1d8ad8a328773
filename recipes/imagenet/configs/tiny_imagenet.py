"""Tiny ImageNet: 200 classes of 64 x 64 pixels, in folders `train` and `val` as Stanford's CS231N hands it out.

    python -m recipes.imagenet --config tiny_imagenet --images tiny-imagenet-200 \\
        --validation-labels tiny-imagenet-200/val/val_annotations.txt --attention evolving \\
        --attention-arguments alpha=0.5 beta=1

ResNet-34 that begins with a 3 x 3 convolution, without pooling; attention in stages of 32, 16 and 8 pixels, the first
of them pooled. No paper's settings; they have not been run to their end here.
"""

from recipes.imagenet.settings import ImageNetConfig

CONFIG = ImageNetConfig(
    validation="val",
    image_size=64,
    augmentation="pad_crop",
    model="resnet34",
    model_arguments=dict(small_images=True),
    statistics_momentum=0.997,
    epochs=60,
    batch_size=64,
    learning_rate=0.2,
    warmup_epochs=2.0,
    decay_epochs=(30, 45, 55),
    weight_decay=5e-4,
    label_smoothing=0.1,
)
