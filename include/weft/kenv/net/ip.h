#pragma once

#include <linux/in.h>
#include <linux/netdevice.h>
