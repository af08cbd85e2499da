#pragma once

/* Interfaces of the network that the process sees, by name and number. */

#include <net/net_namespace.h>
#include <linux/types.h>

#define IFNAMSIZ_KENV 16

struct net_device {
	char name[IFNAMSIZ_KENV];
	int ifindex;
	int references; /* of the environment: besides the first */
};

WEFT_KENV_BEGIN
/* NULL: no such interface. What they give is given back by dev_put(). */
struct net_device *dev_get_by_name(struct net *net, const char *name);
struct net_device *dev_get_by_index(struct net *net, int index);
void dev_hold(struct net_device *device);
void dev_put(struct net_device *device);
WEFT_KENV_END

#define __dev_get_by_name(net, name) dev_get_by_name(net, name)
#define __dev_get_by_index(net, index) dev_get_by_index(net, index)
