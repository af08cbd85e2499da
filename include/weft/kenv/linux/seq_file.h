#pragma once

/* Text that is made of records, each shown whole. */

#include <linux/fs.h>
#include <linux/printk.h>
#include <linux/types.h>

struct seq_operations;

struct seq_file {
	char *buf;
	size_t size;
	size_t count;
	const struct seq_operations *op;
#ifdef __cplusplus
	void *private_data;
#else
	void *private;
#endif
};

struct seq_operations {
	void *(*start)(struct seq_file *seq, loff_t *position);
	void (*stop)(struct seq_file *seq, void *at);
	void *(*next)(struct seq_file *seq, void *at, loff_t *position);
	int (*show)(struct seq_file *seq, void *at);
};

#define SEQ_START_TOKEN ((void *)1)

WEFT_KENV_BEGIN
void seq_printf(struct seq_file *seq, const char *format, ...) __printf(2, 3);
void seq_puts(struct seq_file *seq, const char *text);
void seq_putc(struct seq_file *seq, char c);
int seq_write(struct seq_file *seq, const void *bytes, size_t count);
int seq_open(struct file *file, const struct seq_operations *op);
int seq_release(struct inode *inode, struct file *file);
int single_open(struct file *file, int (*show)(struct seq_file *seq, void *at), void *data);
int single_release(struct inode *inode, struct file *file);
ssize_t seq_read(struct file *file, char __user *to, size_t count, loff_t *position);
loff_t seq_lseek(struct file *file, loff_t to, int whence);
WEFT_KENV_END

#define seq_has_overflowed(seq) ((void)(seq), false)
