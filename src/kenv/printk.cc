// What modules say.

#include <unistd.h>

#include <algorithm>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <string>
#include <utility>

#include <linux/bug.h>
#include <linux/jiffies.h>
#include <linux/kernel.h>
#include <linux/slab.h>
#include <linux/string.h>
#include <linux/sysfs.h>

#include <weft/module_host.h>
#include "kenv/format.h"

namespace {

using weft::kenv::format_kernel;

constexpr char kDebug = '7';
std::mutex the_mutex;  // of what follows
bool shows_debug = false;
bool is_in_line = false;  // what was said last has no end of line yet

void say(const char level, std::string text) {
  const std::lock_guard lock{the_mutex};
  if (level == kDebug && !shows_debug) {
    return;
  }
  if (is_in_line && level != 'c') {
    text.insert(0, "\n");
  }
  is_in_line = !text.ends_with('\n');
  std::fwrite(text.data(), 1, text.size(), stderr);
  std::fflush(stderr);
}

}  // namespace

void weft::kenv::show_debug_messages(bool does) {
  const std::lock_guard lock{the_mutex};
  shows_debug = does;
}

void weft::kenv::end_line() {
  const std::lock_guard lock{the_mutex};
  if (is_in_line) {
    std::fputc('\n', stderr);
    is_in_line = false;
  }
}

int vprintk(const char* format, va_list arguments) {
  std::string text = format_kernel(format, arguments);
  char level = '4';
  if (text.size() >= 2 && text[0] == KERN_SOH[0]) {
    level = text[1];
    text.erase(0, 2);
  }
  const int size = static_cast<int>(text.size());
  say(level, std::move(text));
  return size;
}

int printk(const char* format, ...) {
  va_list arguments;
  va_start(arguments, format);
  const int size = vprintk(format, arguments);
  va_end(arguments);
  return size;
}

bool weft_kenv_may_print(unsigned long* state) {
  constexpr unsigned long kInterval = 5UL * HZ;
  constexpr unsigned long kBurst = 10;
  // The upper bits are the beginning of the interval in jiffies, the lower eight what was printed.
  static std::mutex mutex;
  const std::lock_guard lock{mutex};
  const unsigned long now = jiffies;
  if (*state == 0 || now - (*state >> 8U) >= kInterval) {
    *state = now << 8U;
  }
  if ((*state & 0xFF) >= kBurst) {
    return false;
  }
  ++*state;
  return true;
}

void weft_kenv_bug(const char* file, int line, const char* what) {
  printk(KERN_CRIT "%s at %s:%d\n", what, file, line);
  std::abort();
}

bool weft_kenv_warn(const char* file, int line, const char* format, ...) {
  va_list arguments;
  va_start(arguments, format);
  std::string text = format_kernel(format, arguments);
  va_end(arguments);
  while (text.ends_with('\n')) {
    text.pop_back();
  }
  printk(KERN_WARNING "WARNING at %s:%d: %s\n", file, line, text.c_str());
  return true;
}

int vscnprintf(char* to, size_t size, const char* format, va_list arguments) {
  if (size == 0) {
    return 0;
  }
  const std::string text = format_kernel(format, arguments);
  const std::size_t count = std::min(text.size(), size - 1);
  std::memcpy(to, text.data(), count);
  to[count] = '\0';
  return static_cast<int>(count);
}

int scnprintf(char* to, size_t size, const char* format, ...) {
  va_list arguments;
  va_start(arguments, format);
  const int count = vscnprintf(to, size, format, arguments);
  va_end(arguments);
  return count;
}

int sysfs_emit(char* buffer, const char* format, ...) {
  va_list arguments;
  va_start(arguments, format);
  const int count = vscnprintf(buffer, PAGE_SIZE, format, arguments);
  va_end(arguments);
  return count;
}

int sysfs_emit_at(char* buffer, int at, const char* format, ...) {
  if (at < 0 || static_cast<unsigned long>(at) >= PAGE_SIZE) {
    return 0;
  }
  va_list arguments;
  va_start(arguments, format);
  const int count =
      vscnprintf(buffer + at, PAGE_SIZE - static_cast<unsigned long>(at), format, arguments);
  va_end(arguments);
  return count;
}

char* kasprintf(gfp_t flags, const char* format, ...) {
  va_list arguments;
  va_start(arguments, format);
  const std::string text = format_kernel(format, arguments);
  va_end(arguments);
  return kstrdup(text.c_str(), flags);
}
