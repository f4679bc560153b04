from hypothesis import HealthCheck, settings

# Machines that run tests are slow and shared: a property fails by its assertions, not by time.
settings.register_profile(
    "fastloop", deadline=None, suppress_health_check=[HealthCheck.too_slow], print_blob=True
)
settings.load_profile("fastloop")
