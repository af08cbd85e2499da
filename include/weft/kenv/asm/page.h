#pragma once

#include <linux/mm_types.h>
