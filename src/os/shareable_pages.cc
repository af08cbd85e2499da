#include "os/shareable_pages.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <sstream>
#include <string_view>
#include <vector>

#include "os/mapped_range.h"
#include "os/process_pages.h"

namespace weft::os {
namespace {

/// Longer than the address space that a program has: what is behind the pages is a hole.
constexpr off_t kFileBytes = off_t{1} << 47;
/// Out of the way of programs that expect the lowest free number. Policy.
constexpr int kLeastDescriptor = 256;

/// Flags of a mapping that says nothing of its own (proc_pid_smaps(5), VmFlags): what may be done
/// with it, that it is accounted for or is not, and that somebody may look for changes.
constexpr std::array<std::string_view, 9> kPlainFlags{"rd", "wr", "mr", "mw", "me",
                                                      "ac", "nr", "sd", "nh"};

/// Private memory without a file: of malloc(3) and mmap(2), named or not.
[[nodiscard]] bool is_plain(const MappedRange& range) {
  return range.access == "rw-p" && range.inode == 0 &&
         (range.path.empty() || range.path == "[heap]" || range.path.starts_with("[anon:"));
}

/// Where the kernel may be about to write although no thread of the program runs in it.
[[nodiscard]] bool is_of_asynchronous_io(const MappedRange& range) {
  return range.path.contains("[aio]") || range.path.contains("[io_uring]");
}

[[nodiscard]] MutableByteSpan pages_around(std::span<const std::byte> memory) {
  const auto first = std::bit_cast<std::uintptr_t>(memory.data());
  const std::uintptr_t start = first / page_size() * page_size();
  const std::uintptr_t end = (first + memory.size() + page_size() - 1) / page_size() * page_size();
  return {std::bit_cast<std::byte*>(start), end - start};
}

/// Not by the C library's function, in whose place a sanitizer has one that looks at what it
/// writes.
[[nodiscard, gnu::no_sanitize_address]] bool write_file(int file, ByteSpan content,
                                                        std::uint64_t offset) {
  while (!content.empty()) {
    const long done = syscall(SYS_pwrite64, file, content.data(), content.size(), offset);
    if (done <= 0) {
      return false;
    }
    offset += static_cast<std::uint64_t>(done);
    content = content.subspan(static_cast<std::size_t>(done));
  }
  return true;
}

[[nodiscard]] bool read_file(int file, MutableByteSpan content, std::uint64_t offset) {
  while (!content.empty()) {
    const long done = syscall(SYS_pread64, file, content.data(), content.size(), offset);
    if (done <= 0) {
      return false;
    }
    offset += static_cast<std::uint64_t>(done);
    content = content.subspan(static_cast<std::size_t>(done));
  }
  return true;
}

/// Which pages have something in them: those that were never touched stay holes. Unknown: all.
[[nodiscard]] std::vector<bool> find_touched(MutableByteSpan pages) {
  const std::size_t count = pages.size() / page_size();
  std::vector<std::uint64_t> entries(count);
  std::vector<bool> touched(count);  // now, or its memory could be of a page that has nothing yet
  const UniqueFd pagemap{open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC)};
  const std::size_t bytes = count * sizeof(std::uint64_t);
  const std::uint64_t first = std::bit_cast<std::uintptr_t>(pages.data()) / page_size();
  const bool is_known = pagemap && pread(pagemap.get(), entries.data(), bytes,
                                         static_cast<off_t>(first * sizeof(std::uint64_t))) ==
                                       static_cast<ssize_t>(bytes);
  constexpr std::uint64_t kPresentOrSwapped = std::uint64_t{3} << 62;
  for (std::size_t i = 0; i < count; ++i) {
    touched[i] = !is_known || (entries[i] & kPresentOrSwapped) != 0;
  }
  return touched;
}

/// Whole pages, of which those that are zeros are zeros already. Where a sanitizer has its marks as
/// well, which its memcpy(3) looks at.
[[gnu::no_sanitize_address]] void copy_pages(MutableByteSpan to, ByteSpan from) {
  const std::size_t words = page_size() / sizeof(std::uint64_t);
  void* const first = to.data();
  const void* const source_first = from.data();
  auto* target = static_cast<volatile std::uint64_t*>(first);
  const auto* source = static_cast<const volatile std::uint64_t*>(source_first);
  for (std::size_t page = 0; page < to.size() / page_size(); ++page) {
    std::uint64_t content = 0;
    for (std::size_t i = 0; i < words; ++i) {
      content |= source[i];
    }
    for (std::size_t i = 0; content != 0 && i < words; ++i) {
      target[i] = source[i];
    }
    target += words;
    source += words;
  }
}

/// Nobody changes the pages between its look at the first and the end: not even a handler.
class SignalsBlocked {
 public:
  SignalsBlocked() {
    sigset_t all;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before_);
  }
  ~SignalsBlocked() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
  SignalsBlocked(const SignalsBlocked&) = delete;
  SignalsBlocked& operator=(const SignalsBlocked&) = delete;

 private:
  sigset_t before_{};
};

[[nodiscard]] std::unexpected<Error> refusal(const char* what) {
  return fail(ErrorCode::Io, "memory stays private: {} ({})", what, std::strerror(errno));
}

/// Too long for some limit, a file is refused by a signal.
[[nodiscard]] Result<UniqueFd> make_file() {
  rlimit limit{};
  if (getrlimit(RLIMIT_FSIZE, &limit) != 0 || limit.rlim_cur < rlim_t{kFileBytes}) {
    return fail(ErrorCode::NotSupported,
                "memory stays private: RLIMIT_FSIZE allows no file for it");
  }
  const UniqueFd made{memfd_create("weft-pages", MFD_CLOEXEC | MFD_ALLOW_SEALING)};
  UniqueFd file{made ? fcntl(made.get(), F_DUPFD_CLOEXEC, kLeastDescriptor) : -1};
  if (!file || ftruncate(file.get(), kFileBytes) != 0 ||
      fcntl(file.get(), F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW) != 0) {
    return refusal("its file");
  }
  return file;
}

/// Puts private pages in the place of `range`, which has lost its own, with what the file has.
/// There is no way on without them.
void put_back(MutableByteSpan range, int file, std::uint64_t offset) {
  void* const at = mmap(range.data(), range.size(), PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
  if (at == MAP_FAILED || !read_file(file, range, offset)) {
    std::abort();
  }
}

/// All mappings of the file in this process, wherever they are now.
[[nodiscard]] std::vector<MappedRange> mappings_of(ino_t inode) {
  std::vector<MappedRange> found;
  std::ifstream maps{"/proc/self/maps"};
  for (std::string line; std::getline(maps, line);) {
    auto range = read_mapped_range(line);
    if (range && range->inode == inode && range->path.starts_with("/memfd:weft-pages")) {
      found.push_back(std::move(*range));
    }
  }
  return found;
}

/// The file again, but what is written there is this process's own.
void map_private(MutableByteSpan memory, int protection, int file, std::uint64_t offset) {
  mmap(memory.data(), memory.size(), protection, MAP_PRIVATE | MAP_FIXED, file,
       static_cast<off_t>(offset));
}

[[nodiscard]] MutableByteSpan memory_of(const MappedRange& range) {
  return {std::bit_cast<std::byte*>(range.first), range.end - range.first};
}

}  // namespace

std::string why_not_shareable(std::istream& smaps, std::uint64_t first, std::uint64_t end) {
  constexpr std::string_view kFlags = "VmFlags:";
  bool has_flags = true;  // of the mapping whose lines are read, where it counts
  std::uint64_t next = first;
  std::string line;
  while (first < end && std::getline(smaps, line)) {
    if (const auto range = read_mapped_range(line)) {
      if (!has_flags) {
        return "its mapping has no flags in /proc/self/smaps";
      }
      if (range->end <= first) {
        continue;
      }
      if (range->first > first || !is_plain(*range)) {
        return "it is not all private memory";
      }
      has_flags = false;
      next = range->end;
    } else if (!has_flags && line.starts_with(kFlags)) {
      std::istringstream flags{line.substr(kFlags.size())};
      for (std::string flag; flags >> flag;) {
        if (std::ranges::find(kPlainFlags, flag) == kPlainFlags.end()) {
          return "its mapping is of a special kind: " + flag;
        }
      }
      has_flags = true;
      first = next;
    }
  }
  return first < end ? "nothing is mapped there" : "";
}

namespace {

/// The calling thread writes there while the pages are copied: its stack may be of malloc(3), too.
[[nodiscard]] bool has_own_stack(MutableByteSpan pages) {
  constexpr std::uintptr_t kBelow = 1U << 18;  // policy: what is called from here takes
  constexpr std::uintptr_t kAbove = 1U << 16;  // policy: and what has called it
  const auto at = std::bit_cast<std::uintptr_t>(__builtin_frame_address(0));
  const auto first = std::bit_cast<std::uintptr_t>(pages.data());
  return first < at + kAbove && at - kBelow < first + pages.size();
}

}  // namespace

/// A sanitizer keeps local variables elsewhere, maybe among what is copied: not those of this.
[[gnu::no_sanitize_address]] Result<ShareablePages> ShareablePages::make(
    std::span<const std::byte> memory) {
  const MutableByteSpan pages = pages_around(memory);
  const auto first = std::bit_cast<std::uintptr_t>(pages.data());
  if (pages.empty()) {
    return fail(ErrorCode::InvalidArgument, "memory stays private: there is none");
  }
  if (has_own_stack(pages)) {
    return fail(ErrorCode::NotSupported, "memory stays private: it has the stack of its thread");
  }
  std::ifstream maps{"/proc/self/maps"};
  for (std::string line; std::getline(maps, line);) {
    const auto range = read_mapped_range(line);
    if (range && is_of_asynchronous_io(*range)) {
      return fail(ErrorCode::Busy, "memory stays private: the program has asynchronous I/O");
    }
  }
  std::ifstream smaps{"/proc/self/smaps"};
  if (const std::string why = why_not_shareable(smaps, first, first + pages.size()); !why.empty()) {
    return fail(ErrorCode::NotSupported, "memory stays private: {}", why);
  }
  auto file = make_file();
  if (!file) {
    return std::unexpected(file.error());
  }
  struct stat status{};
  if (fstat(file->get(), &status) != 0) {
    return refusal("its file");
  }
  const std::vector<bool> touched = find_touched(pages);
  const SignalsBlocked blocked;
  for (std::size_t page = 0; page < touched.size();) {
    const std::size_t begin = page;
    while (page < touched.size() && touched[page] == touched[begin]) {
      ++page;
    }
    const std::size_t offset = begin * page_size();
    if (touched[begin] &&
        !write_file(file->get(), pages.subspan(offset, (page - begin) * page_size()), offset)) {
      return refusal("no room in its file");
    }
  }
  if (mmap(pages.data(), pages.size(), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, file->get(),
           0) == MAP_FAILED) {
    const int why = errno;
    put_back(pages, file->get(), 0);  // the old ones may be gone, and be what a message needs
    errno = why;
    return refusal("mmap");
  }
  return ShareablePages{pages, std::move(*file), status.st_ino};
}

bool ShareablePages::covers(std::span<const std::byte> memory) const {
  const MutableByteSpan asked = pages_around(memory);
  return asked.data() >= pages_.data() && asked.size() <= pages_.size() &&
         static_cast<std::size_t>(asked.data() - pages_.data()) <= pages_.size() - asked.size();
}

bool ShareablePages::overlaps(std::span<const std::byte> memory) const {
  const MutableByteSpan asked = pages_around(memory);
  return asked.data() < pages_.data() + pages_.size() &&
         pages_.data() < asked.data() + asked.size();
}

/// A program that closes descriptors which are not its own may have another file by this number.
bool ShareablePages::has_file() const {
  struct stat status{};
  return fstat(file_.get(), &status) == 0 && status.st_ino == inode_ && S_ISREG(status.st_mode);
}

void ShareablePages::make_private() {
  if (!has_file()) {
    return restore();
  }
  for (const MappedRange& range : mappings_of(inode_)) {
    if (!range.is_private()) {
      map_private(memory_of(range), range.protection(), file_.get(), range.offset);
    }
  }
}

/// By a copy that takes the place of the pages whole, for who is held may read there: a page that
/// is empty for a moment would tell it to go on.
[[gnu::no_sanitize_address]] void ShareablePages::restore() {
  const std::vector<MappedRange> ranges = mappings_of(inode_);
  const SignalsBlocked blocked;
  for (const MappedRange& range : ranges) {
    const MutableByteSpan old = memory_of(range);
    void* const aside =
        mmap(nullptr, old.size(), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (aside == MAP_FAILED) {
      continue;
    }
    if ((range.protection() & PROT_READ) == 0) {
      mprotect(old.data(), old.size(), PROT_READ);
    }
    const MutableByteSpan copy{static_cast<std::byte*>(aside), old.size()};
    copy_pages(copy, old);
    mprotect(aside, old.size(), range.protection());
    if (mremap(aside, old.size(), old.size(), MREMAP_MAYMOVE | MREMAP_FIXED, old.data()) ==
        MAP_FAILED) {
      munmap(aside, old.size());  // too many mappings: then they stay a file's, but nobody else's
      if (!range.is_private() && has_file()) {
        map_private(old, range.protection(), file_.get(), range.offset);
      }
    }
  }
}

}  // namespace weft::os
