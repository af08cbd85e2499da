#pragma once

/* Functions that are called once for each time they are queued, by threads of the queue. A work that
 * is pending is not queued again; while it runs it may be, and never runs beside itself. */

#include <linux/timer.h>
#include <linux/types.h>

struct work_struct;
struct workqueue_struct;
typedef void (*work_func_t)(struct work_struct *work);

struct work_struct {
	work_func_t func;
	struct workqueue_struct *queue; /* of the environment, as what follows */
	bool is_pending;
};

struct delayed_work {
	struct work_struct work;
	struct timer_list timer;
};

enum {
	WQ_UNBOUND = 1 << 1,
	WQ_FREEZABLE = 1 << 2,
	WQ_MEM_RECLAIM = 1 << 3,
	WQ_HIGHPRI = 1 << 4,
	WQ_CPU_INTENSIVE = 1 << 5,
	WQ_SYSFS = 1 << 6,
	WEFT_KENV_WQ_ORDERED = 1 << 17,
	WQ_MAX_ACTIVE = 512,
	WQ_DFL_ACTIVE = 256,
};

#define __WORK_INITIALIZER(name, f) { (f), NULL, false }
#define DECLARE_WORK(name, f) struct work_struct name = __WORK_INITIALIZER(name, f)
#define DECLARE_DELAYED_WORK(name, f) \
	struct delayed_work name = { __WORK_INITIALIZER(name, f), { 0, weft_kenv_delayed_work_due, false } }

WEFT_KENV_BEGIN
extern struct workqueue_struct *const system_wq;
extern struct workqueue_struct *const system_long_wq;
extern struct workqueue_struct *const system_unbound_wq;
extern struct workqueue_struct *const system_highpri_wq;

void weft_kenv_init_work(struct work_struct *work, work_func_t func);
void weft_kenv_delayed_work_due(struct timer_list *timer);

struct workqueue_struct *alloc_workqueue(const char *format, unsigned int flags, int max_active, ...)
	__printf(1, 4);
/* What is queued is done first. */
void destroy_workqueue(struct workqueue_struct *queue);
/* What was queued before is done on return. */
void flush_workqueue(struct workqueue_struct *queue);
/* The same, and what its works queue meanwhile. */
void drain_workqueue(struct workqueue_struct *queue);

bool queue_work(struct workqueue_struct *queue, struct work_struct *work);
bool queue_delayed_work(struct workqueue_struct *queue, struct delayed_work *work, unsigned long delay);
/* True: it was pending, and has a new time. */
bool mod_delayed_work(struct workqueue_struct *queue, struct delayed_work *work, unsigned long delay);
/* True: there was something to wait for. */
bool flush_work(struct work_struct *work);
bool flush_delayed_work(struct delayed_work *work);
/* True: it was pending. With _sync it does not run any more, either. */
bool cancel_work(struct work_struct *work);
bool cancel_work_sync(struct work_struct *work);
bool cancel_delayed_work(struct delayed_work *work);
bool cancel_delayed_work_sync(struct delayed_work *work);
WEFT_KENV_END

#define INIT_WORK(work, f) weft_kenv_init_work(work, f)
#define INIT_WORK_ONSTACK(work, f) weft_kenv_init_work(work, f)
#define INIT_DELAYED_WORK(dwork, f)                                             \
	do {                                                                    \
		weft_kenv_init_work(&(dwork)->work, f);                         \
		timer_setup(&(dwork)->timer, weft_kenv_delayed_work_due, 0);    \
	} while (0)
#define work_pending(w) (__atomic_load_n(&(w)->is_pending, __ATOMIC_ACQUIRE))
#define delayed_work_pending(w) work_pending(&(w)->work)
#define to_delayed_work(w) container_of(w, struct delayed_work, work)
#define alloc_ordered_workqueue(format, flags, ...) \
	alloc_workqueue(format, (flags) | WQ_UNBOUND | WEFT_KENV_WQ_ORDERED, 1, ##__VA_ARGS__)
#define create_singlethread_workqueue(name) alloc_ordered_workqueue("%s", WQ_MEM_RECLAIM, name)
#define create_workqueue(name) alloc_workqueue("%s", WQ_MEM_RECLAIM, 1, name)
#define queue_work_on(cpu, queue, work) queue_work(queue, work)
#define schedule_work(work) queue_work(system_wq, work)
#define schedule_delayed_work(work, delay) queue_delayed_work(system_wq, work, delay)
#define flush_scheduled_work() flush_workqueue(system_wq)
