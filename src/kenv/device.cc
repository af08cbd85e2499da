// Named, counted objects.

#include <cstdarg>
#include <cstdlib>
#include <string>

#include <linux/container_of.h>
#include <linux/device.h>
#include <linux/kobject.h>
#include <linux/slab.h>

#include "kenv/format.h"

namespace {

void release_kobject(struct kref* kref) {
  auto* const object = container_of(kref, struct kobject, kref);
  const char* const name = object->name;
  if (object->ktype != nullptr && object->ktype->release != nullptr) {
    object->ktype->release(object);
  }
  kfree(name);
}

void release_device(struct kobject* object) {
  auto* const gone = container_of(object, struct device, kobj);
  if (gone->release != nullptr) {
    gone->release(gone);
  }
}

constexpr struct kobj_type kDeviceType{.release = release_device};

}  // namespace

void kobject_init(struct kobject* object, const struct kobj_type* type) {
  kref_init(&object->kref);
  object->ktype = type;
}

int kobject_set_name(struct kobject* object, const char* format, ...) {
  va_list arguments;
  va_start(arguments, format);
  const std::string name = weft::kenv::format_kernel(format, arguments);
  va_end(arguments);
  kfree(object->name);
  object->name = kstrdup(name.c_str(), GFP_KERNEL);
  return object->name != nullptr ? 0 : -ENOMEM;
}

struct kobject* kobject_get(struct kobject* object) {
  if (object != nullptr) {
    kref_get(&object->kref);
  }
  return object;
}

void kobject_put(struct kobject* object) {
  if (object != nullptr) {
    kref_put(&object->kref, release_kobject);
  }
}

void device_initialize(struct device* device) { kobject_init(&device->kobj, &kDeviceType); }

struct device* get_device(struct device* device) {
  if (device != nullptr) {
    kobject_get(&device->kobj);
  }
  return device;
}

void put_device(struct device* device) {
  if (device != nullptr) {
    kobject_put(&device->kobj);
  }
}
