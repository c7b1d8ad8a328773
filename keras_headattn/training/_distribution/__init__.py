"""A model trained on many devices: its step, the devices and the workers."""
