#pragma once

#include <linux/types.h>
#include <linux/uaccess.h>

struct inode {
	void *i_private;
};

struct file {
	loff_t f_pos;
	void *private_data;
	struct inode *f_inode;
	unsigned int f_flags;
};

static inline struct inode *file_inode(const struct file *file)
{
	return file->f_inode;
}

WEFT_KENV_BEGIN
/* Of a whole piece of memory, as a file's content. */
ssize_t simple_read_from_buffer(void __user *to, size_t count, loff_t *position, const void *from, size_t available);
WEFT_KENV_END
