"""Files, terminals and optional packages, without Keras: programs check command lines and files before importing it."""
