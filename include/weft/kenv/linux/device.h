#pragma once

#include <linux/dma-mapping.h>
#include <linux/kobject.h>
#include <linux/printk.h>
#include <linux/slab.h>

struct device {
	struct kobject kobj;
	struct device *parent;
	void *driver_data;
	void (*release)(struct device *device);
};

struct device_attribute {
	struct attribute attr;
	ssize_t (*show)(struct device *device, struct device_attribute *attribute, char *buffer);
	ssize_t (*store)(struct device *device, struct device_attribute *attribute, const char *buffer, size_t count);
};

#define DEVICE_ATTR(name, mode, show, store) struct device_attribute dev_attr_##name = __ATTR(name, mode, show, store)
#define DEVICE_ATTR_RO(name) struct device_attribute dev_attr_##name = __ATTR_RO(name)
#define DEVICE_ATTR_RW(name) struct device_attribute dev_attr_##name = __ATTR_RW(name)
#define DEVICE_ATTR_WO(name) struct device_attribute dev_attr_##name = __ATTR_WO(name)

WEFT_KENV_BEGIN
void device_initialize(struct device *device);
struct device *get_device(struct device *device);
void put_device(struct device *device);
/* An entry DEVICE/NAME of the module. -EEXIST: there is one. */
int device_create_file(struct device *device, const struct device_attribute *attribute);
void device_remove_file(struct device *device, const struct device_attribute *attribute);
WEFT_KENV_END

#define dev_set_name(device, ...) kobject_set_name(&(device)->kobj, __VA_ARGS__)

static inline const char *dev_name(const struct device *device)
{
	return device->kobj.name ? device->kobj.name : "(none)";
}

static inline void *dev_get_drvdata(const struct device *device)
{
	return device->driver_data;
}

static inline void dev_set_drvdata(struct device *device, void *data)
{
	device->driver_data = data;
}

#define dev_to_node(device) (-1)
#define dev_printk(level, device, format, ...) printk(level "%s: " format, dev_name(device), ##__VA_ARGS__)
#define dev_err(device, format, ...) dev_printk(KERN_ERR, device, format, ##__VA_ARGS__)
#define dev_warn(device, format, ...) dev_printk(KERN_WARNING, device, format, ##__VA_ARGS__)
#define dev_notice(device, format, ...) dev_printk(KERN_NOTICE, device, format, ##__VA_ARGS__)
#define dev_info(device, format, ...) dev_printk(KERN_INFO, device, format, ##__VA_ARGS__)
#define dev_dbg(device, format, ...) dev_printk(KERN_DEBUG, device, format, ##__VA_ARGS__)
