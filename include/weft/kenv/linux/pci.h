#pragma once

/* Nothing of PCI is there; modules include it for what it brings along. */

#include <linux/device.h>
#include <linux/kobject.h>
#include <linux/timex.h>
