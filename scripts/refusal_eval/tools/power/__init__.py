"""What a comparison of models can find before it is run."""
