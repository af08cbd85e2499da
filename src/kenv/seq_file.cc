// Texts of records.

#include <algorithm>
#include <cerrno>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>

#include <linux/err.h>
#include <linux/errno.h>
#include <linux/seq_file.h>
#include <linux/slab.h>

#include "kenv/format.h"

namespace {

/// A seq_file with its text, all of which is made by the first read.
struct Text {
  seq_file shown{};  // first: known by its address
  std::string text;
  bool is_made{};
  int (*show)(seq_file*, void*){};  // of single_open()
};

[[nodiscard]] Text& text_of(seq_file* seq) { return *static_cast<Text*>(static_cast<void*>(seq)); }

int open_text(file* file, const seq_operations* op, int (*show)(seq_file*, void*), void* data) {
  auto made = std::make_unique<Text>();
  made->shown.op = op;
  made->shown.private_data = data;
  made->show = show;
  file->private_data = &made.release()->shown;
  return 0;
}

int release_text(file* file) {
  std::unique_ptr<Text>{&text_of(static_cast<seq_file*>(file->private_data))}.reset();
  return 0;
}

/// Every record; 0, or what a function of the module refused with.
int make_text(Text& text) {
  seq_file* const seq = &text.shown;
  if (text.show != nullptr) {
    return text.show(seq, nullptr);
  }
  constexpr std::size_t kMostBytes = 16U << 20;  // policy: of a list that has no end
  loff_t position = 0;
  int error = 0;
  void* at = seq->op->start(seq, &position);
  while (!IS_ERR_OR_NULL(at) && error >= 0 && text.text.size() < kMostBytes) {
    const std::size_t before = text.text.size();
    error = seq->op->show(seq, at);
    if (error > 0) {
      text.text.resize(before);  // SEQ_SKIP
    }
    at = seq->op->next(seq, at, &position);
  }
  seq->op->stop(seq, at);
  return error < 0 ? error : IS_ERR(at) ? static_cast<int>(PTR_ERR(at)) : 0;
}

}  // namespace

void seq_printf(struct seq_file* seq, const char* format, ...) {
  va_list arguments;
  va_start(arguments, format);
  text_of(seq).text += weft::kenv::format_kernel(format, arguments);
  va_end(arguments);
}

void seq_puts(struct seq_file* seq, const char* text) { text_of(seq).text += text; }
void seq_putc(struct seq_file* seq, char c) { text_of(seq).text += c; }

int seq_write(struct seq_file* seq, const void* bytes, size_t count) {
  text_of(seq).text.append(static_cast<const char*>(bytes), count);
  return 0;
}

int seq_open(struct file* file, const struct seq_operations* op) {
  return open_text(file, op, nullptr, nullptr);
}
int seq_release(struct inode* /*inode*/, struct file* file) { return release_text(file); }

int single_open(struct file* file, int (*show)(struct seq_file*, void*), void* data) {
  return open_text(file, nullptr, show, data);
}
int single_release(struct inode* /*inode*/, struct file* file) { return release_text(file); }

ssize_t seq_read(struct file* file, char* to, size_t count, loff_t* position) {
  Text& text = text_of(static_cast<seq_file*>(file->private_data));
  if (!text.is_made) {
    if (const int error = make_text(text); error < 0) {
      return error;
    }
    text.is_made = true;
  }
  return simple_read_from_buffer(to, count, position, text.text.data(), text.text.size());
}

loff_t seq_lseek(struct file* file, loff_t to, int whence) {
  if (whence != SEEK_SET || to < 0) {
    return -EINVAL;
  }
  file->f_pos = to;
  return to;
}

ssize_t simple_read_from_buffer(void* to, size_t count, loff_t* position, const void* from,
                                size_t available) {
  if (*position < 0) {
    return -EINVAL;
  }
  const auto begin = static_cast<std::size_t>(*position);
  if (begin >= available) {
    return 0;
  }
  const std::size_t bytes = std::min(count, available - begin);
  std::memcpy(to, static_cast<const char*>(from) + begin, bytes);
  *position += static_cast<loff_t>(bytes);
  return static_cast<ssize_t>(bytes);
}
