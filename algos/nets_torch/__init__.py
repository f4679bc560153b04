"""The same networks in torch: for convolutions, bfloat16 and GPUs."""
