#include "core/mr.h"

#include <algorithm>

namespace weft::core {

Result<std::uint32_t> sg_to_pages(Mr& mr, std::span<const ScatterEntry> list, std::uint32_t* offset,
                                  const std::function<bool(std::uint64_t page)>& set_page) {
  const std::uint64_t skipped = offset != nullptr ? *offset : 0;
  if (list.empty() || skipped >= list.front().length) {
    return fail(ErrorCode::InvalidArgument,
                "byte {} is not in the first of {} elements, where the region is to begin", skipped,
                list.size());
  }
  const std::uint64_t in_page = mr.page_size - 1;
  mr.iova = list.front().address + skipped;
  mr.length = 0;
  std::uint64_t mapped_end = 0;                  // of the bytes so far
  std::uint64_t next_page = mr.iova & ~in_page;  // the first that set_page has not seen
  std::uint32_t count = 0;
  for (const ScatterEntry& element : list) {
    const std::uint64_t begin = element.address + (count == 0 ? skipped : 0);
    const std::uint64_t end = element.address + element.length;
    if (count != 0 && begin != mapped_end) {
      if ((mapped_end & in_page) != 0 || (begin & in_page) != 0) {
        break;  // a gap within a page
      }
      next_page = begin;
    }
    for (; next_page < end; next_page += mr.page_size) {
      if (set_page(next_page)) {
        continue;
      }
      const std::uint64_t unmapped = std::max(begin, next_page);  // the first byte without a page
      mr.length += unmapped - begin;
      if (mr.length == 0) {
        return fail(ErrorCode::OutOfMemory, "not even the first page was taken");
      }
      if (offset != nullptr) {
        *offset = static_cast<std::uint32_t>(unmapped - element.address);
      }
      return count;
    }
    mr.length += end - begin;
    mapped_end = end;
    ++count;
  }
  if (offset != nullptr) {
    *offset = 0;
  }
  return count;
}

}  // namespace weft::core
