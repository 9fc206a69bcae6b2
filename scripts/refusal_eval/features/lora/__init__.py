"""LoRA adapters of models: fetched, identified, checked against their weights, served, and shown to be applied."""

ADAPTER_SOURCES = {"hub": "adapter_sources:HubAdapter", "folder": "adapter_sources:FolderAdapter"}
MODEL_KEYS = {"lora": "lora_keys:LoraKeys"}
RULES = ["adapters"]
FILES = {
    "fetched_adapters": "lora_files:FETCHED_ADAPTERS",
    "adapters": "lora_files:ADAPTERS",
    "checked_adapters": "lora_files:CHECKED_ADAPTERS",
}
CHANGES = {"lora": "lora_change:LoraChange"}
