"""The settings of an image classification run."""

import keras

from keras_headattn.layers import ATTENTIONS
from keras_headattn.models import VIT_SIZES, ResNet, ViT
from recipes.engine.config import option, passed_on, settings
from recipes.engine.settings import Settings, Smoothing, optimizer_arguments, share_of
from recipes.imagenet.augmentation import inception_crop, pad_and_crop

RESNETS = ("resnet34", "resnet50", "resnet101", "resnet152", "small")
OPTIMIZERS = {"sgd": keras.optimizers.SGD, "adamw": keras.optimizers.AdamW, "lamb": keras.optimizers.Lamb}
AUGMENTATIONS = ("inception", "pad_crop", "none")


@settings()
class Images:
    """The images, their classes, and which of them are used."""

    title = "data"

    images: str | None = option(
        None, "folder with a folder for each split, and in it one for each class", metavar="FOLDER"
    )
    records: str | None = option(
        None, "folder of TFRecords such as train-00000-of-01024, in place of image files", metavar="FOLDER"
    )
    tfds: str | None = option(
        None, "name in TensorFlow Datasets, such as imagenet2012, in place of files", metavar="NAME"
    )
    built_in: bool = option(False, "train on scikit-learn's handwritten digits, 8 x 8 pixels")
    train_split: str = option(
        "train", "split to train on: folder, beginning of file names, or tfds split", metavar="SPLIT"
    )
    validation: str = option(
        "validation", "split to evaluate on, or a share of the training images, such as 0.1", metavar="SPLIT"
    )
    validation_labels: str | None = option(
        None,
        "text file, lines of file name and class, for a validation split of --images without class folders",
        metavar="FILE",
    )
    class_names: str | None = option(
        None, "text file, a class a line in the order of labels; none: names of the folders, or numbers", metavar="FILE"
    )
    num_classes: int | None = option(None, "number of classes of --records, unless --class-names has them", at_least=2)
    first_label: int = option(1, "label of the first class in --records", at_least=0)
    max_images: int | None = option(None, "largest number of images of each split, drawn at random", at_least=1)
    batch_size: int = option(32, "images in a batch, on each replica", at_least=1)


@settings()
class Pixels:
    """The part of an image that the network sees."""

    title = "pixels"

    image_size: int = option(224, "side of the square image that the model sees, in pixels", at_least=8)
    resized: int | None = option(
        None,
        "shorter side in pixels to which images are resized before the crop of evaluation; none: 256 for a crop of "
        "224, or in that proportion (docs/imagenet.md)",
        at_least=8,
    )
    augmentation: str = option(
        "inception", "random crops; inception: of random area and aspect; pad_crop: for small images", AUGMENTATIONS
    )
    augmentation_arguments: dict = option(
        {"flip": True, "jitter": 0.0},
        "options of the augmentation; flip=false: no mirrored images; jitter: share by which brightness, contrast"
        " and saturation change; min_area: "
        "smallest share of an image that inception crops, by default 0.08",
        of={
            "inception": [inception_crop],
            "pad_crop": [pad_and_crop],
            "none": [],
        },
    )
    rand_augment: int = option(
        0, "RandAugment: magnitude, 1 to 10, of two random operations an image; 0: none", at_least=0, at_most=10
    )
    random_erasing: float = option(
        0.0, "probability that noise replaces a rectangle of an image", at_least=0, at_most=1
    )
    mixup: float = option(0.0, "MixUp: parameter of the Beta distribution, such as 0.8; 0: none", at_least=0)
    cutmix: float = option(
        0.0, "CutMix: the same, such as 1.0; with --mixup, an image gets either at random", at_least=0
    )

    @property
    def mixes(self):
        """True if images are mixed in pairs, so that labels are shares of classes."""
        return self.mixup > 0 or self.cutmix > 0


@settings()
class Model:
    """The network, but for its attention."""

    title = "model"

    model: str = option(
        "resnet50",
        "network; small: three stages for images of 32 pixels; vit_...: Vision Transformers",
        (*RESNETS, *VIT_SIZES),
    )
    model_arguments: dict = option(  # the defaults are the paper's networks
        {},
        "arguments of the model, such as stochastic_depth=0.1",
        of=dict.fromkeys(RESNETS, [ResNet]) | dict.fromkeys(VIT_SIZES, [ViT]),
    )
    statistics_momentum: float | None = option(
        None,
        "momentum of batch normalisation's moving statistics; none: 0.997, but less for an epoch of under 1,000 steps",
        at_least=0,
        below=1,
    )
    blocks: int = option(3, "number of blocks in each stage of the model small", at_least=1)


@settings(
    attention=option(
        "none",
        "attention layer beside the 3 x 3 convolutions of a ResNet (none: convolutions alone), or in the blocks of a "
        "ViT (none: multi_head)",
        ("none", *ATTENTIONS),
    ),
    epochs=100,
    patience=None,
    select="val_accuracy",
    average_of="last",
    learning_rate=option(0.128, "highest rate for 256 images a step; in proportion for others", above=0),
    run="runs/imagenet",
)
class ImageNetConfig(Images, Pixels, Model, Settings, Smoothing):
    """Every setting of a run. Other values, of smaller data sets, are in the folder `configs`.

    The defaults are those of Wang et al. 2021, "Evolving attention with residual convolutions", for ImageNet. Today's
    settings are in `configs/vit_tiny.py` and `configs/resnet50_modern.py`.
    """

    title = "training"
    SOURCES = ("images", "records", "tfds", "built_in")
    MOST_USED = ("images", "validation", "tfds", "image_size", "model", "batch_size", *Settings.MOST_USED)
    SIZE_OPTIONS = ("model", "model_arguments.filters", "model_arguments.num_layers")
    EXPORTED = ("", "_tensors")

    schedule: str = option(
        "step",
        "schedule of the learning rate after warm-up; step: see --decay-epochs; cosine: to 0 at --epochs",
        ("step", "cosine"),
    )
    warmup_epochs: float | None = option(
        None, "epochs in which the rate rises from 0; none: 5, but at most a tenth of --epochs", at_least=0
    )
    decay_epochs: tuple[int, ...] = option(
        (), "epochs after which the rate is a tenth; none: 30, 60, 80 and 90 % of --epochs"
    )
    optimizer: str = option("sgd", "optimizer", tuple(OPTIMIZERS))
    optimizer_arguments: dict = optimizer_arguments({name: [cls] for name, cls in OPTIMIZERS.items()}, momentum=0.9)
    weight_decay: float = option(
        1e-4,
        "rate of weight decay; sgd: L2 loss, half of the squared weights, without those of normalisation; adamw, lamb: "
        "decoupled decay, without biases either",
        at_least=0,
    )

    def check(self):
        if self.is_vit and self.attention == "none":
            object.__setattr__(self, "attention", "multi_head")
        self._leave_out_momentum()
        if self.augmentation == "none" and self.augmentation_arguments != ImageNetConfig().augmentation_arguments:
            raise ValueError(
                "--augmentation none takes no --augmentation-arguments. "
                f"Received: augmentation_arguments={self.augmentation_arguments}"
            )
        if self.is_vit and self.image_size % (side := self.model_argument("patch_size")):
            raise ValueError(
                f"--image-size must be a multiple of the patches of {side} pixels, see --model-arguments patch_size. "
                f"Received: image_size={self.image_size}"
            )
        if self.schedule == "cosine" and (self.warmup_epochs or 0) >= self.epochs:
            raise ValueError(
                f"--warmup-epochs must be fewer than the {self.epochs} --epochs for --schedule cosine. "
                f"Received: warmup_epochs={self.warmup_epochs}"
            )
        if self.validation_labels and not self.images:
            raise ValueError(
                f"--validation-labels needs --images. Received: validation_labels={self.validation_labels!r}"
            )
        if self.validation_share and self.validation_labels:
            raise ValueError(
                "--validation-labels are for a split, not for a share of the training images. "
                f"Received: validation_labels={self.validation_labels!r}, validation={self.validation}"
            )
        if self.resized is not None and self.resized < self.image_size:
            raise ValueError(
                f"--resized must be at least --image-size, {self.image_size}. Received: resized={self.resized}"
            )
        if list(self.decay_epochs) != sorted(set(self.decay_epochs)):
            raise ValueError(f"--decay-epochs must ascend. Received: decay_epochs={self.decay_epochs}")
        if self.attention_arguments and self.attention == "none":
            raise ValueError(
                f"--attention-arguments need --attention. Received: attention_arguments={self.attention_arguments}"
            )

    def _leave_out_momentum(self):
        """Removes the momentum of SGD where the optimizer takes none."""
        arguments = dict(self.optimizer_arguments)
        if "momentum" in passed_on([OPTIMIZERS[self.optimizer]]):
            return
        if (momentum := arguments.pop("momentum")) != 0.9:
            raise ValueError(
                f"--optimizer-arguments: {OPTIMIZERS[self.optimizer].__name__} has no momentum. "
                f"Received: momentum={momentum}"
            )
        object.__setattr__(self, "optimizer_arguments", arguments)

    of_data = ()

    @property
    def validation_share(self):
        """Share of the training images for validation; `None` for a split."""
        return share_of(self.validation, "a split")

    @property
    def validation_split(self):
        """Name of the split to evaluate on; of a share, the default."""
        return "validation" if self.validation_share else self.validation

    @property
    def is_vit(self):
        """True if the network is a Vision Transformer."""
        return self.model in VIT_SIZES

    @property
    def shape(self):
        """Arguments of a Vision Transformer of the named size, with what overrides it."""
        return VIT_SIZES[self.model] | self.model_arguments if self.is_vit else {}

    @property
    def attention_shape(self):
        """Width of all heads together, and their number unless settings or layer give one."""
        return (self.shape["hidden_dim"], self.shape["num_heads"]) if self.is_vit else super().attention_shape

    def unused(self, given):
        reasons = {}
        if self.schedule != "step":
            reasons["decay_epochs"] = "is for --schedule step"
        if not self.records:
            reasons |= dict.fromkeys(("first_label", "num_classes"), "is only for --records")
        if self.built_in or self.tfds:
            reasons["class_names"] = "is only for --images and --records"
        if self.built_in:
            reasons["train_split"] = "is not for --built-in"
        return reasons

    @property
    def evaluation_side(self):
        """Pixels of the shorter side before the central crop: as 256 to 224 after inception crops, else all."""
        if self.resized is not None:
            return self.resized
        return round(self.image_size * 256 / 224) if self.augmentation == "inception" else self.image_size

    @property
    def description(self):
        return f"{self.model}, attention {self.attention}"
