"""What failed, and where: from exceptions, deaths and silence to one first cause."""
