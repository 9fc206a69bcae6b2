"""LoRA adapters of models: fetched, identified, checked against their weights, served, and shown to be applied."""

ADAPTER_SOURCES = {"hub": "adapter_sources:HubAdapter", "folder": "adapter_sources:FolderAdapter"}
MODEL_KEYS = {"lora": "lora_keys:LoraKeys"}
RULES = ["adapters"]
CHANGES = {"lora": "lora_change:LoraChange"}
