"""The settings of an image classification run."""

from recipes.engine.config import option, settings
from recipes.engine.settings import Settings, Smoothing, model_arguments, optimizer_arguments
from recipes.engine.signatures import ATTENTIONS

MODELS = ("resnet34", "resnet50", "resnet101", "resnet152", "small")
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
    tfds: str | None = option(None, "TensorFlow Datasets name such as imagenet2012, in place of files", metavar="NAME")
    embedded: bool = option(False, "the embedded task: scikit-learn's handwritten digits, 8 x 8 pixels")
    train_split: str = option(
        "train", "split to train on: folder, beginning of file names, or tfds split", metavar="SPLIT"
    )
    validation_split: str = option("validation", "split to evaluate on", metavar="SPLIT")
    validation_labels: str | None = option(
        None,
        "text file, lines of file name and class, for a validation split of --images without class folders",
        metavar="FILE",
    )
    validation_share: float | None = option(
        None, "share of the training images for validation, in place of a validation split", above=0, below=1
    )
    class_names: str | None = option(
        None, "text file, a class a line in the order of labels; none: names of the folders, or numbers", metavar="FILE"
    )
    num_classes: int | None = option(None, "classes of --records, unless --class-names has them", at_least=2)
    first_label: int = option(1, "label of the first class in --records", at_least=0)
    max_images: int | None = option(None, "use only so many images of each split, chosen at random", at_least=1)
    batch_size: int = option(32, "images a step, on each replica", at_least=1)


@settings()
class Pixels:
    """The part of an image that the network sees."""

    title = "pixels"

    image_size: int = option(224, "pixels of a side that the model sees", at_least=8)
    resized: int | None = option(
        None, "to evaluate, the shorter side becomes so many pixels before the crop; none: see docs", at_least=8
    )
    augmentation: str = option("inception", "inception: random area and aspect; pad_crop: small images", AUGMENTATIONS)
    augmentation_arguments: dict = option(
        {"flip": True, "jitter": 0.0},
        "flip=false: no mirrored images; jitter: share by which brightness, contrast and saturation change; min_area: "
        "smallest share of an image that inception crops, by default 0.08",
        of={
            "inception": ["recipes.imagenet.augmentation.inception_crop"],
            "pad_crop": ["recipes.imagenet.augmentation.pad_and_crop"],
            "none": ["recipes.imagenet.augmentation.pad_and_crop"],
        },
    )


@settings()
class Model:
    """The network, but for its attention."""

    title = "model"

    model: str = option("resnet50", "network; small: three stages for images of 32 pixels", MODELS)
    model_arguments: dict = model_arguments("ResNet")  # the defaults are the paper's networks
    statistics_momentum: float = option(
        0.997, "share that batch normalisation's moving statistics keep in a step", at_least=0, below=1
    )
    blocks: int = option(3, "blocks in each stage of the model small", at_least=1)


@settings(
    attention=option("none", "beside the 3 x 3 convolutions", ("none", *ATTENTIONS)),
    epochs=100,
    patience=None,
    select="val_accuracy",
    average_of="last",
    learning_rate=option(0.128, "highest rate for 256 images a step; in proportion for others", above=0),
    run="runs/imagenet",
)
class ImageNetConfig(Images, Pixels, Model, Settings, Smoothing):
    """Every setting of a run. Other values, of smaller data sets, are in the folder `configs`.

    The defaults are those of Wang et al. 2021, "Evolving attention with residual convolutions", for ImageNet.
    """

    title = "training"
    SOURCES = ("images", "records", "tfds", "embedded")
    MOST_USED = ("images", "validation_share", "tfds", "image_size", "model", "batch_size", *Settings.MOST_USED)
    SIZE_OPTIONS = ("model", "model_arguments.filters")

    warmup_epochs: float = option(5.0, "epochs in which the rate rises from 0", at_least=0)
    decay_epochs: tuple[int, ...] = option((30, 60, 80, 90), "epochs after which the rate is a tenth")
    optimizer_arguments: dict = optimizer_arguments(["keras.optimizers.SGD"], momentum=0.9)
    weight_decay: float = option(
        1e-4, "weight of half the squared weights in the loss; normalisation is left out", at_least=0
    )

    def __post_init__(self):
        super().__post_init__()
        if self.validation_labels and not self.images:
            raise ValueError(
                f"--validation-labels needs --images. Received: validation_labels={self.validation_labels!r}"
            )
        if self.validation_labels and self.validation_share:
            raise ValueError(
                "Give --validation-labels or --validation-share, not both. "
                f"Received: validation_labels={self.validation_labels!r}, validation_share={self.validation_share}"
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

    def unused(self, given):
        found = super().unused(given)
        if not self.records:
            found |= dict.fromkeys(("first_label", "num_classes"), "is only for --records")
        return {name: reason for name, reason in found.items() if name in given}

    @property
    def evaluation_side(self):
        """Pixels of the shorter side before the central crop: as 256 to 224 after inception crops, else all."""
        if self.resized is not None:
            return self.resized
        return round(self.image_size * 256 / 224) if self.augmentation == "inception" else self.image_size
