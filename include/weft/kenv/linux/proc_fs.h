#pragma once

/* Entries of a module, which `weft module read NAME ENTRY` and `weft module write NAME ENTRY TEXT` reach. */

#include <linux/fs.h>
#include <linux/seq_file.h>
#include <linux/types.h>

struct proc_dir_entry;

struct proc_ops {
	unsigned int proc_flags;
	int (*proc_open)(struct inode *inode, struct file *file);
	ssize_t (*proc_read)(struct file *file, char __user *to, size_t count, loff_t *position);
	ssize_t (*proc_write)(struct file *file, const char __user *from, size_t count, loff_t *position);
	loff_t (*proc_lseek)(struct file *file, loff_t to, int whence);
	int (*proc_release)(struct inode *inode, struct file *file);
};

WEFT_KENV_BEGIN
/* NULL: there is such an entry, or its folder is none. */
struct proc_dir_entry *proc_mkdir(const char *name, struct proc_dir_entry *parent);
struct proc_dir_entry *proc_create_data(const char *name, umode_t mode, struct proc_dir_entry *parent,
					const struct proc_ops *ops, void *data);
struct proc_dir_entry *proc_create_single_data(const char *name, umode_t mode, struct proc_dir_entry *parent,
					       int (*show)(struct seq_file *seq, void *at), void *data);
/* With all below it. Calls that are under way end first. */
void proc_remove(struct proc_dir_entry *entry);
void remove_proc_entry(const char *name, struct proc_dir_entry *parent);
void *pde_data(const struct inode *inode);
WEFT_KENV_END

#define proc_create(name, mode, parent, ops) proc_create_data(name, mode, parent, ops, NULL)
#define proc_create_single(name, mode, parent, show) proc_create_single_data(name, mode, parent, show, NULL)
#define remove_proc_subtree(name, parent) remove_proc_entry(name, parent)
#define PDE_DATA(inode) pde_data(inode)
