#pragma once

/* A module is a shared object that `weft module run` loads, one in a process. */

#include <linux/atomic.h>
#include <linux/export.h>
#include <linux/init.h>
#include <linux/kernel.h>
#include <linux/kobject.h>
#include <linux/moduleparam.h>
#include <linux/types.h>

WEFT_KENV_BEGIN
extern struct module {
	char name[64];
	atomic_t uses; /* while there are some it is not removed */
} weft_kenv_module;

bool try_module_get(struct module *module);
void __module_get(struct module *module);
void module_put(struct module *module);
WEFT_KENV_END

#define THIS_MODULE (&weft_kenv_module)
#undef KBUILD_MODNAME
#define KBUILD_MODNAME (weft_kenv_module.name)
#define module_name(module) ((module)->name)

#define MODULE_LICENSE(text) EXPORT_SYMBOL(text)
#define MODULE_AUTHOR(text) EXPORT_SYMBOL(text)
#define MODULE_DESCRIPTION(text) EXPORT_SYMBOL(text)
#define MODULE_VERSION(text) EXPORT_SYMBOL(text)
#define MODULE_ALIAS(text) EXPORT_SYMBOL(text)
#define MODULE_SOFTDEP(text) EXPORT_SYMBOL(text)
#define MODULE_INFO(tag, text) EXPORT_SYMBOL(text)
#define MODULE_DEVICE_TABLE(type, name) EXPORT_SYMBOL(name)
#define MODULE_IMPORT_NS(name) EXPORT_SYMBOL(name)
