#pragma once

/* Named objects that are counted, and text files that show something of them. */

#include <linux/kref.h>
#include <linux/list.h>
#include <linux/sysfs.h>

struct kobject;

struct kobj_type {
	void (*release)(struct kobject *object);
};

struct kobject {
	const char *name;
	struct kobject *parent;
	const struct kobj_type *ktype;
	struct kref kref;
};

WEFT_KENV_BEGIN
void kobject_init(struct kobject *object, const struct kobj_type *type);
int kobject_set_name(struct kobject *object, const char *format, ...) __printf(2, 3);
struct kobject *kobject_get(struct kobject *object);
void kobject_put(struct kobject *object);
WEFT_KENV_END

static inline const char *kobject_name(const struct kobject *object)
{
	return object->name;
}
