"""Settings from files: YAML and JSON by ctxkit's own names and by those of the systems that it knows."""

from ctxkit.config_file.brain import Brain
from ctxkit.config_file.level import Setting
from ctxkit.config_file.load import ConfigFile, LoadedConfig, load_config_file

__all__ = ["Brain", "ConfigFile", "LoadedConfig", "Setting", "load_config_file"]
