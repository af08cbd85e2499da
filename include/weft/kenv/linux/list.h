#pragma once

/* Rings of elements that contain their links, and chains with one pointer as head. */

#include <linux/container_of.h>
#include <linux/types.h>

#define LIST_POISON1 ((struct list_head *)0x100)
#define LIST_POISON2 ((struct list_head *)0x122)

#define LIST_HEAD_INIT(name) { &(name), &(name) }
#define LIST_HEAD(name) struct list_head name = LIST_HEAD_INIT(name)

static inline void INIT_LIST_HEAD(struct list_head *head)
{
	head->next = head->prev = head;
}

static inline void weft_kenv_link(struct list_head *one, struct list_head *before, struct list_head *after)
{
	one->prev = before;
	one->next = after;
	before->next = one;
	after->prev = one;
}

static inline void weft_kenv_unlink(struct list_head *one)
{
	one->prev->next = one->next;
	one->next->prev = one->prev;
}

static inline void list_add(struct list_head *one, struct list_head *head)
{
	weft_kenv_link(one, head, head->next);
}

static inline void list_add_tail(struct list_head *one, struct list_head *head)
{
	weft_kenv_link(one, head->prev, head);
}

static inline void list_del(struct list_head *one)
{
	weft_kenv_unlink(one);
	one->next = LIST_POISON1;
	one->prev = LIST_POISON2;
}

static inline void list_del_init(struct list_head *one)
{
	weft_kenv_unlink(one);
	INIT_LIST_HEAD(one);
}

static inline void list_replace(struct list_head *old, struct list_head *by)
{
	weft_kenv_link(by, old->prev, old->next);
}

static inline void list_replace_init(struct list_head *old, struct list_head *by)
{
	list_replace(old, by);
	INIT_LIST_HEAD(old);
}

static inline void list_move(struct list_head *one, struct list_head *head)
{
	weft_kenv_unlink(one);
	list_add(one, head);
}

static inline void list_move_tail(struct list_head *one, struct list_head *head)
{
	weft_kenv_unlink(one);
	list_add_tail(one, head);
}

static inline bool list_empty(const struct list_head *head)
{
	return READ_ONCE(head->next) == head;
}

#define list_empty_careful(head) list_empty(head)

static inline bool list_is_singular(const struct list_head *head)
{
	return !list_empty(head) && head->next == head->prev;
}

static inline bool list_is_last(const struct list_head *one, const struct list_head *head)
{
	return one->next == head;
}

static inline bool list_is_first(const struct list_head *one, const struct list_head *head)
{
	return one->prev == head;
}

/* All elements of `list`, whose head is left as it is, between two neighbours. */
static inline void weft_kenv_splice(const struct list_head *list, struct list_head *before, struct list_head *after)
{
	before->next = list->next;
	list->next->prev = before;
	after->prev = list->prev;
	list->prev->next = after;
}

static inline void list_splice(const struct list_head *list, struct list_head *head)
{
	if (!list_empty(list))
		weft_kenv_splice(list, head, head->next);
}

static inline void list_splice_tail(struct list_head *list, struct list_head *head)
{
	if (!list_empty(list))
		weft_kenv_splice(list, head->prev, head);
}

static inline void list_splice_init(struct list_head *list, struct list_head *head)
{
	list_splice(list, head);
	INIT_LIST_HEAD(list);
}

static inline void list_splice_tail_init(struct list_head *list, struct list_head *head)
{
	list_splice_tail(list, head);
	INIT_LIST_HEAD(list);
}

#define list_entry(one, type, member) container_of(one, type, member)
#define list_first_entry(head, type, member) list_entry((head)->next, type, member)
#define list_last_entry(head, type, member) list_entry((head)->prev, type, member)
#define list_first_entry_or_null(head, type, member) \
	(list_empty(head) ? NULL : list_first_entry(head, type, member))
#define list_next_entry(at, member) list_entry((at)->member.next, __typeof__(*(at)), member)
#define list_prev_entry(at, member) list_entry((at)->member.prev, __typeof__(*(at)), member)
#define list_entry_is_head(at, head, member) (&(at)->member == (head))

#define list_for_each(at, head) for ((at) = (head)->next; (at) != (head); (at) = (at)->next)
#define list_for_each_prev(at, head) for ((at) = (head)->prev; (at) != (head); (at) = (at)->prev)
#define list_for_each_safe(at, then, head) \
	for ((at) = (head)->next, (then) = (at)->next; (at) != (head); (at) = (then), (then) = (at)->next)
#define list_for_each_entry(at, head, member)                                                        \
	for ((at) = list_first_entry(head, __typeof__(*(at)), member); !list_entry_is_head(at, head, member); \
	     (at) = list_next_entry(at, member))
#define list_for_each_entry_reverse(at, head, member)                                               \
	for ((at) = list_last_entry(head, __typeof__(*(at)), member); !list_entry_is_head(at, head, member); \
	     (at) = list_prev_entry(at, member))
#define list_for_each_entry_safe(at, then, head, member)                                             \
	for ((at) = list_first_entry(head, __typeof__(*(at)), member), (then) = list_next_entry(at, member); \
	     !list_entry_is_head(at, head, member); (at) = (then), (then) = list_next_entry(then, member))
#define list_for_each_entry_continue(at, head, member)                                             \
	for ((at) = list_next_entry(at, member); !list_entry_is_head(at, head, member); \
	     (at) = list_next_entry(at, member))

#define HLIST_HEAD_INIT { NULL }
#define HLIST_HEAD(name) struct hlist_head name = HLIST_HEAD_INIT
#define INIT_HLIST_HEAD(head) ((head)->first = NULL)

static inline void INIT_HLIST_NODE(struct hlist_node *node)
{
	node->next = NULL;
	node->pprev = NULL;
}

static inline bool hlist_unhashed(const struct hlist_node *node)
{
	return !node->pprev;
}

static inline bool hlist_empty(const struct hlist_head *head)
{
	return !head->first;
}

static inline void hlist_add_head(struct hlist_node *node, struct hlist_head *head)
{
	node->next = head->first;
	if (node->next)
		node->next->pprev = &node->next;
	head->first = node;
	node->pprev = &head->first;
}

static inline void hlist_del_init(struct hlist_node *node)
{
	if (hlist_unhashed(node))
		return;
	*node->pprev = node->next;
	if (node->next)
		node->next->pprev = node->pprev;
	INIT_HLIST_NODE(node);
}

#define hlist_del(node) hlist_del_init(node)
#define hlist_entry(node, type, member) container_of(node, type, member)
#define hlist_entry_safe(node, type, member) ((node) ? hlist_entry(node, type, member) : NULL)
#define hlist_for_each_entry(at, head, member)                                      \
	for ((at) = hlist_entry_safe((head)->first, __typeof__(*(at)), member); (at); \
	     (at) = hlist_entry_safe((at)->member.next, __typeof__(*(at)), member))
