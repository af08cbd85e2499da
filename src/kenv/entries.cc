// Entries of a module: those of proc_fs, and attributes of devices.

#include <algorithm>
#include <array>
#include <cerrno>
#include <condition_variable>
#include <cstdio>
#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <linux/device.h>
#include <linux/errno.h>
#include <linux/proc_fs.h>

#include <weft/module_host.h>

struct proc_dir_entry {
  std::string name;
  proc_dir_entry* parent{};
  bool is_folder{};
  const proc_ops* ops{};
  int (*show)(seq_file*, void*){};
  void* data{};
  // Of a device's attribute:
  struct device* device{};
  const device_attribute* attribute{};

  std::map<std::string, std::unique_ptr<proc_dir_entry>, std::less<>> entries;
  unsigned calls{};  // under way
};

namespace {

struct Entries {
  std::mutex mutex;  // of what follows
  std::condition_variable ended;
  proc_dir_entry root{.name = "", .is_folder = true, .entries = {}};
};

[[nodiscard]] Entries& all() {
  static Entries& one = *new Entries;
  return one;
}

[[nodiscard]] proc_dir_entry* add(proc_dir_entry* parent, std::unique_ptr<proc_dir_entry> entry) {
  const std::lock_guard lock{all().mutex};
  proc_dir_entry& folder = parent != nullptr ? *parent : all().root;
  if (!folder.is_folder || entry->name.empty() || entry->name.contains('/') ||
      folder.entries.contains(entry->name)) {
    return nullptr;
  }
  entry->parent = &folder;
  auto& place = folder.entries[entry->name];
  place = std::move(entry);
  return place.get();
}

[[nodiscard]] bool has_calls(const proc_dir_entry& entry) {
  if (entry.calls != 0) {
    return true;
  }
  for (const auto& [name, inner] : entry.entries) {
    if (has_calls(*inner)) {
      return true;
    }
  }
  return false;
}

/// Nobody finds it any more, and no call of it is under way.
void remove(std::unique_lock<std::mutex>& lock, proc_dir_entry& entry) {
  auto node = entry.parent->entries.extract(entry.name);
  all().ended.wait(lock, [&] { return !has_calls(entry); });
}

/// With its call counted; null: there is none.
class Call {
 public:
  explicit Call(std::string_view path) {
    const std::lock_guard lock{all().mutex};
    proc_dir_entry* at = &all().root;
    while (at != nullptr && !path.empty()) {
      const std::size_t end = std::min(path.find('/'), path.size());
      const auto found = at->entries.find(path.substr(0, end));
      at = found == at->entries.end() ? nullptr : found->second.get();
      path.remove_prefix(std::min(end + 1, path.size()));
    }
    if (at != nullptr && !at->is_folder) {
      entry_ = at;
      ++entry_->calls;
    }
  }
  ~Call() {
    if (entry_ != nullptr) {
      const std::lock_guard lock{all().mutex};
      --entry_->calls;
      all().ended.notify_all();
    }
  }
  Call(const Call&) = delete;
  Call& operator=(const Call&) = delete;
  [[nodiscard]] proc_dir_entry* entry() const { return entry_; }

 private:
  proc_dir_entry* entry_{};
};

/// An open file of an entry.
class OpenFile {
 public:
  explicit OpenFile(const proc_dir_entry& entry) : entry_(entry) {
    inode_.i_private = entry.data;
    file_.f_inode = &inode_;
    if (entry.show != nullptr) {
      status_ = single_open(&file_, entry.show, entry.data);
    } else if (entry.ops->proc_open != nullptr) {
      status_ = entry.ops->proc_open(&inode_, &file_);
    }
  }
  ~OpenFile() {
    if (status_ != 0) {
      return;
    }
    if (entry_.show != nullptr) {
      single_release(&inode_, &file_);
    } else if (entry_.ops->proc_release != nullptr) {
      entry_.ops->proc_release(&inode_, &file_);
    }
  }
  OpenFile(const OpenFile&) = delete;
  OpenFile& operator=(const OpenFile&) = delete;

  [[nodiscard]] int status() const { return status_; }

  ssize_t read(char* to, std::size_t count) {
    if (entry_.show == nullptr && entry_.ops->proc_read == nullptr) {
      return -EIO;
    }
    return entry_.show != nullptr ? seq_read(&file_, to, count, &file_.f_pos)
                                  : entry_.ops->proc_read(&file_, to, count, &file_.f_pos);
  }

  ssize_t write(const char* from, std::size_t count) {
    if (entry_.ops == nullptr || entry_.ops->proc_write == nullptr) {
      return -EIO;
    }
    return entry_.ops->proc_write(&file_, from, count, &file_.f_pos);
  }

 private:
  const proc_dir_entry& entry_;
  inode inode_{};
  file file_{};
  int status_{};
};

[[nodiscard]] weft::kenv::EntryResult read_attribute(const proc_dir_entry& entry) {
  if (entry.attribute->show == nullptr) {
    return {.status = -EIO, .text = {}};
  }
  std::vector<char> page(PAGE_SIZE);
  // Attributes are the module's own objects, which its functions may change.
  auto* const attribute = const_cast<device_attribute*>(entry.attribute);
  const ssize_t count = attribute->show(entry.device, attribute, page.data());
  if (count < 0 || static_cast<std::size_t>(count) > page.size()) {
    return {.status = count < 0 ? count : -EIO, .text = {}};
  }
  return {
      .status = count, .text = {page.data(), static_cast<std::size_t>(count)}
  };
}

void collect(const proc_dir_entry& folder, const std::string& before,
             std::vector<std::string>& to) {
  for (const auto& [name, entry] : folder.entries) {
    if (entry->is_folder) {
      collect(*entry, before + name + "/", to);
    } else {
      to.push_back(before + name);
    }
  }
}

}  // namespace

namespace weft::kenv {

std::vector<std::string> entries() {
  std::vector<std::string> names;
  const std::lock_guard lock{all().mutex};
  collect(all().root, "", names);
  return names;
}

EntryResult read_entry(std::string_view name) {
  const Call call{name};
  if (call.entry() == nullptr) {
    return {.status = -ENOENT, .text = {}};
  }
  if (call.entry()->attribute != nullptr) {
    return read_attribute(*call.entry());
  }
  OpenFile file{*call.entry()};
  if (file.status() != 0) {
    return {.status = file.status(), .text = {}};
  }
  constexpr std::size_t kMostBytes = 1U << 20;  // policy
  EntryResult result;
  std::array<char, PAGE_SIZE> page{};
  while (result.text.size() < kMostBytes) {
    const ssize_t count = file.read(page.data(), page.size());
    if (count <= 0 || static_cast<std::size_t>(count) > page.size()) {
      result.status = count < 0 ? count : static_cast<long>(result.text.size());
      return result;
    }
    result.text.append(page.data(), static_cast<std::size_t>(count));
  }
  result.status = static_cast<long>(result.text.size());
  return result;
}

EntryResult write_entry(std::string_view name, std::string_view text) {
  const Call call{name};
  if (call.entry() == nullptr) {
    return {.status = -ENOENT, .text = {}};
  }
  const std::string own{text};
  if (call.entry()->attribute != nullptr) {
    auto* const attribute = const_cast<device_attribute*>(call.entry()->attribute);
    if (attribute->store == nullptr) {
      return {.status = -EIO, .text = {}};
    }
    return {.status = attribute->store(call.entry()->device, attribute, own.c_str(), own.size()),
            .text = {}};
  }
  OpenFile file{*call.entry()};
  if (file.status() != 0) {
    return {.status = file.status(), .text = {}};
  }
  return {.status = file.write(own.c_str(), own.size()), .text = {}};
}

}  // namespace weft::kenv

struct proc_dir_entry* proc_mkdir(const char* name, struct proc_dir_entry* parent) {
  auto made = std::make_unique<proc_dir_entry>();
  made->name = name;
  made->is_folder = true;
  return add(parent, std::move(made));
}

struct proc_dir_entry* proc_create_data(const char* name, umode_t /*mode*/,
                                        struct proc_dir_entry* parent, const struct proc_ops* ops,
                                        void* data) {
  auto made = std::make_unique<proc_dir_entry>();
  made->name = name;
  made->ops = ops;
  made->data = data;
  return add(parent, std::move(made));
}

struct proc_dir_entry* proc_create_single_data(const char* name, umode_t /*mode*/,
                                               struct proc_dir_entry* parent,
                                               int (*show)(struct seq_file*, void*), void* data) {
  auto made = std::make_unique<proc_dir_entry>();
  made->name = name;
  made->show = show;
  made->data = data;
  return add(parent, std::move(made));
}

void proc_remove(struct proc_dir_entry* entry) {
  if (entry != nullptr) {
    std::unique_lock lock{all().mutex};
    remove(lock, *entry);
  }
}

void remove_proc_entry(const char* name, struct proc_dir_entry* parent) {
  std::unique_lock lock{all().mutex};
  proc_dir_entry& folder = parent != nullptr ? *parent : all().root;
  const auto found = folder.entries.find(name);
  if (found != folder.entries.end()) {
    remove(lock, *found->second);
  }
}

void* pde_data(const struct inode* inode) { return inode->i_private; }

int device_create_file(struct device* device, const struct device_attribute* attribute) {
  proc_dir_entry* folder = nullptr;
  {
    const std::lock_guard lock{all().mutex};
    const auto found = all().root.entries.find(dev_name(device));
    folder = found != all().root.entries.end() ? found->second.get() : nullptr;
  }
  if (folder == nullptr) {
    folder = proc_mkdir(dev_name(device), nullptr);
  }
  auto made = std::make_unique<proc_dir_entry>();
  made->name = attribute->attr.name;
  made->device = device;
  made->attribute = attribute;
  return folder != nullptr && add(folder, std::move(made)) != nullptr ? 0 : -EEXIST;
}

void device_remove_file(struct device* device, const struct device_attribute* attribute) {
  std::unique_lock lock{all().mutex};
  const auto folder = all().root.entries.find(dev_name(device));
  if (folder == all().root.entries.end()) {
    return;
  }
  const auto found = folder->second->entries.find(attribute->attr.name);
  if (found != folder->second->entries.end()) {
    remove(lock, *found->second);
  }
  if (folder->second->entries.empty()) {
    all().root.entries.erase(folder);
  }
}
