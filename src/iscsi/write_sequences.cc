#include "iscsi/write_sequences.h"

#include <algorithm>

#include "iscsi/serial.h"
#include "wire/iscsi/opcode.h"

namespace weft::iscsi {

using wire::iscsi::kNoTag;

WriteSequences::WriteSequences(std::size_t total, std::size_t immediate, bool unsolicited,
                               const Parameters& parameters)
    : total_(total),
      max_burst_(parameters.max_burst_length),
      max_outstanding_(parameters.max_outstanding_r2t),
      in_order_(parameters.data_pdu_in_order),
      recovers_(parameters.error_recovery_level > 0),
      next_offset_(immediate) {
  if (unsolicited) {
    const std::size_t end = std::min<std::size_t>(total, parameters.first_burst_length);
    unsolicited_ =
        Sequence{.tag = kNoTag, .begin = immediate, .end = end, .at = immediate, .ranges = {}};
    next_offset_ = end;
  }
}

DataOutVerdict WriteSequences::take(const DataOutPart& part) {
  if (part.target_transfer_tag == kNoTag) {
    if (!unsolicited_) {
      return recovers_ ? DataOutVerdict::Discarded : DataOutVerdict::Unexpected;
    }
    const DataOutVerdict verdict = take_in(*unsolicited_, part);
    if (part.final && (verdict == DataOutVerdict::Stored || verdict == DataOutVerdict::Discarded)) {
      const Sequence ended = *std::exchange(unsolicited_, std::nullopt);
      if (ended.broken) {
        end_sequence(ended);
      } else {  // fewer than FirstBurstLength are legal (RFC 7143 §11.7.1)
        next_offset_ = ended.at;
      }
    }
    return verdict;
  }
  const auto found = std::ranges::find(requests_, part.target_transfer_tag, &Sequence::tag);
  if (found == requests_.end()) {
    return recovers_ ? DataOutVerdict::Discarded : DataOutVerdict::Incorrect;
  }
  const DataOutVerdict verdict = take_in(*found, part);
  if (part.final && (verdict == DataOutVerdict::Stored || verdict == DataOutVerdict::Discarded)) {
    const Sequence ended = *found;
    if (!ended.broken && ended.at != ended.end && !recovers_) {
      return DataOutVerdict::Incorrect;  // too few
    }
    requests_.erase(found);
    std::erase_if(asked_,
                  [&](const DataRequest& one) { return one.target_transfer_tag == ended.tag; });
    end_sequence(ended);
  }
  return verdict;
}

void WriteSequences::end_sequence(const Sequence& sequence) {
  if (sequence.at != sequence.end) {
    missing_.emplace_back(sequence.at, sequence.end);
  }
}

DataOutVerdict WriteSequences::fail(Sequence& sequence, DataOutVerdict otherwise) const {
  if (!recovers_) {
    return otherwise;
  }
  sequence.broken = true;
  return DataOutVerdict::Discarded;
}

DataOutVerdict WriteSequences::take_in(Sequence& sequence, const DataOutPart& part) {
  const bool is_outside = part.offset < sequence.begin || part.offset > sequence.end ||
                          part.bytes > sequence.end - part.offset;
  if (is_outside) {
    return DataOutVerdict::Incorrect;
  }
  if (serial_before(part.data_sn, sequence.next_data_sn)) {
    return fail(sequence, DataOutVerdict::Incorrect);
  }
  if (sequence.broken || part.damaged || part.data_sn != sequence.next_data_sn) {
    return fail(sequence, DataOutVerdict::Incorrect);  // RFC 7143 §7.8, §7.9
  }
  ++sequence.next_data_sn;
  if (!in_order_) {
    return take_any_order(sequence, part);
  }
  if (part.offset != sequence.at) {
    return fail(sequence, DataOutVerdict::Incorrect);
  }
  sequence.at += part.bytes;
  return DataOutVerdict::Stored;
}

// With DataPDUInOrder=No, offsets of a sequence come as they like, but never twice.
DataOutVerdict WriteSequences::take_any_order(Sequence& sequence, const DataOutPart& part) const {
  const std::size_t end = part.offset + part.bytes;
  for (const auto& [from, to] : sequence.ranges) {
    if (part.offset < to && from < end) {
      return fail(sequence, DataOutVerdict::Incorrect);
    }
  }
  sequence.ranges.emplace_back(part.offset, end);
  std::ranges::sort(sequence.ranges);
  for (const auto& [from, to] : sequence.ranges) {
    if (from == sequence.at) {
      sequence.at = to;
    }
  }
  return DataOutVerdict::Stored;
}

bool WriteSequences::take_fetched(std::uint32_t target_transfer_tag) {
  const auto found = std::ranges::find(requests_, target_transfer_tag, &Sequence::tag);
  if (found == requests_.end()) {
    return false;
  }
  requests_.erase(found);
  std::erase_if(asked_, [&](const DataRequest& one) {
    return one.target_transfer_tag == target_transfer_tag;
  });
  return true;
}

std::optional<DataRequest> WriteSequences::next_request(std::uint32_t target_transfer_tag) {
  if (unsolicited_ || requests_.size() >= max_outstanding_) {
    return std::nullopt;
  }
  std::size_t begin = next_offset_;
  std::size_t end = std::min(total_, begin + max_burst_);
  if (!missing_.empty()) {
    begin = missing_.front().first;
    end = std::min(missing_.front().second, begin + max_burst_);
    missing_.front().first = end;
    if (missing_.front().first == missing_.front().second) {
      missing_.erase(missing_.begin());
    }
  } else if (begin == total_) {
    return std::nullopt;
  } else {
    next_offset_ = end;
  }
  requests_.push_back(
      {.tag = target_transfer_tag, .begin = begin, .end = end, .at = begin, .ranges = {}});
  asked_.push_back({.r2t_sn = next_r2t_sn_++,
                    .target_transfer_tag = target_transfer_tag,
                    .offset = begin,
                    .bytes = end - begin});
  return asked_.back();
}

void WriteSequences::ask_again() {
  if (unsolicited_) {
    end_sequence(*unsolicited_);
    unsolicited_.reset();
  }
  for (const Sequence& sequence : requests_) {
    end_sequence(sequence);
  }
  requests_.clear();
  asked_.clear();
}

}  // namespace weft::iscsi
