"""What follows from the stamps that blocks leave."""

import numpy as np

from wavesim_gpu.record.layout import RECORD
from wavesim_gpu.record.stamps import within


def on_sms(*numbers):
    records = np.zeros(len(numbers), RECORD)
    records["sm"] = numbers
    return records


def test_in_a_part_of_a_gpu_sms_are_numbered_from_zero():
    assert within(on_sms(40, 131, 40, 96), 16)["sm"].tolist() == [0, 2, 0, 1]


def test_on_a_whole_gpu_they_keep_the_hardwares_numbers():
    assert within(on_sms(40, 131, 40), 132)["sm"].tolist() == [40, 131, 40]


def test_more_sms_than_there_are_stay_as_they_are_and_are_refused_later():
    assert within(on_sms(0, 7, 9), 2)["sm"].tolist() == [0, 7, 9]
    assert len(within(on_sms(), 2)) == 0
