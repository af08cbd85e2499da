#pragma once

#include <linux/gfp.h>
#include <linux/mm_types.h>
