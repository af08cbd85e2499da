#pragma once

/* The kernel whose interface this is. */
#define KERNEL_VERSION(major, minor, patch) (((major) << 16) + ((minor) << 8) + ((patch) > 255 ? 255 : (patch)))
#define LINUX_VERSION_CODE KERNEL_VERSION(6, 12, 0)
