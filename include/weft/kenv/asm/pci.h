#pragma once

#include <linux/pci.h>
