"""Networks as shapes, flat parameters and NumPy passes; what all algorithms share."""
